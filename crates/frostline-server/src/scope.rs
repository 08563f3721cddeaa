//! What a client may do with which indices.

use std::sync::Arc;

use frostline_base::{IndexName, wildcard_matches};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::error::{ApiError, Result};
use crate::routes::{APIS, Action, Api};

/// What may be done with the indices of some names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// With `*`.
    pub(crate) names: Vec<String>,
    pub(crate) privileges: Vec<Privilege>,
    /// The fields that are seen; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<FieldRules>,
}

/// Which fields of documents are seen. A field is meant by its path, or by that of an object that it is in, with `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FieldRules {
    pub(crate) grant: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) except: Vec<String>,
}

impl FieldRules {
    /// Whether the field at this path is seen.
    pub(crate) fn sees(&self, path: &str) -> bool {
        let is_meant = |patterns: &[String]| {
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            let mut paths = ends.map(|end| &path[..end]);
            paths.any(|path| patterns.iter().any(|pattern| wildcard_matches(pattern, path)))
        };
        is_meant(&self.grant) && !is_meant(&self.except)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Privilege {
    /// To read what is known of an index, which all others contain.
    View,
    /// To read documents.
    Read,
    /// To add documents, also the first ones of an index.
    Write,
    /// To replace, update and delete documents as well.
    Edit,
    /// To make indices.
    CreateIndex,
    /// To delete indices.
    DeleteIndex,
    /// To make, merge and delete indices.
    Manage,
}

impl Privilege {
    /// What `all` means.
    pub(crate) const ALL: [Privilege; 4] =
        [Privilege::Read, Privilege::Write, Privilege::Edit, Privilege::Manage];

    /// Elasticsearch's names for what there is nothing of here, or nothing by itself. Roles of its documentation have
    /// them beside others.
    pub(crate) const WITHOUT_EFFECT: [&str; 9] = [
        "cross_cluster_replication",
        "cross_cluster_replication_internal",
        "delete",
        "manage_data_stream_lifecycle",
        "manage_failure_store",
        "manage_follow_index",
        "manage_ilm",
        "manage_leader_index",
        "read_cross_cluster",
    ];

    /// Those that Elasticsearch's name means.
    pub(crate) fn of(name: &str) -> Result<Vec<Privilege>> {
        Ok(match name {
            _ if Privilege::WITHOUT_EFFECT.contains(&name) => Vec::new(),
            "all" => Privilege::ALL.to_vec(),
            "read" => vec![Privilege::Read],
            "auto_configure" | "create" | "create_doc" | "index" => vec![Privilege::Write],
            "write" => vec![Privilege::Write, Privilege::Edit],
            "create_index" => vec![Privilege::CreateIndex],
            "delete_index" => vec![Privilege::DeleteIndex],
            "manage" => vec![Privilege::Manage],
            "maintenance" | "monitor" | "view_index_metadata" => vec![Privilege::View],
            other => {
                return Err(ApiError::invalid(format!(
                    "unknown index privilege [{other}]: use all, read, create_doc, write, create_index, delete_index, \
                     manage or view_index_metadata"
                )));
            }
        })
    }

    /// Elasticsearch's names that grant these, and no more.
    pub(crate) fn names(granted: &[Privilege]) -> Vec<&'static str> {
        if Privilege::ALL.iter().all(|privilege| granted.contains(privilege)) {
            return vec!["all"];
        }
        let is_covered =
            |privilege: &Privilege| *privilege == Privilege::Write && granted.contains(&Privilege::Edit);
        granted.iter().filter(|privilege| !is_covered(privilege)).map(|privilege| privilege.name()).collect()
    }

    /// Elasticsearch's name of the least that contains it.
    fn name(self) -> &'static str {
        match self {
            Privilege::View => "view_index_metadata",
            Privilege::Read => "read",
            Privilege::Write => "create_doc",
            Privilege::Edit => "write",
            Privilege::CreateIndex => "create_index",
            Privilege::DeleteIndex => "delete_index",
            Privilege::Manage => "manage",
        }
    }

    fn is_in(self, granted: &[Privilege]) -> bool {
        let contains = |privilege| granted.contains(&privilege);
        match self {
            Privilege::View => true,
            Privilege::CreateIndex | Privilege::DeleteIndex => contains(self) || contains(Privilege::Manage),
            _ => contains(self),
        }
    }
}

/// What may be done with snapshots, each with all before it; of the indices in them, with those that are granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Snapshots {
    #[default]
    Nothing,
    /// To list them.
    Monitor,
    /// To make them.
    Create,
    /// To delete, restore and mount them.
    Manage,
}

impl Snapshots {
    /// What a cluster privilege of Elasticsearch's allows.
    pub(crate) fn of(privilege: &str) -> Snapshots {
        match privilege {
            "all" | "manage" => Snapshots::Manage,
            "create_snapshot" => Snapshots::Create,
            "monitor_snapshot" => Snapshots::Monitor,
            _ => Snapshots::Nothing,
        }
    }

    /// Elasticsearch's name of it.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Snapshots::Nothing => None,
            Snapshots::Monitor => Some("monitor_snapshot"),
            Snapshots::Create => Some("create_snapshot"),
            Snapshots::Manage => Some("manage"),
        }
    }

    /// What an API needs of somebody who may not do everything; nothing for an API of something else.
    fn needed(api: &str) -> Snapshots {
        match api {
            "cat.repositories"
            | "cat.snapshots"
            | "searchable_snapshots.stats"
            | "snapshot.get"
            | "snapshot.get_repository"
            | "snapshot.status"
            | "snapshot.verify_repository" => Snapshots::Monitor,
            "snapshot.create" => Snapshots::Create,
            "searchable_snapshots.mount" | "snapshot.delete" | "snapshot.restore" => Snapshots::Manage,
            _ => Snapshots::Nothing,
        }
    }
}

/// What may be done beside indices and snapshots by somebody who may not do everything, by Elasticsearch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cluster {
    /// All that is no security, and what the others allow.
    Manage,
    ManageIndexTemplates,
    ManageIlm,
    ReadIlm,
    /// Of ingest.
    #[serde(rename = "manage_ingest_pipelines")]
    ManagePipelines,
    #[serde(rename = "read_pipeline")]
    ReadPipelines,
}

impl Cluster {
    const EACH: [Cluster; 6] = [
        Cluster::ManageIndexTemplates,
        Cluster::ManageIlm,
        Cluster::ReadIlm,
        Cluster::ManagePipelines,
        Cluster::ReadPipelines,
        Cluster::Manage,
    ];

    /// What a cluster privilege of Elasticsearch's allows; none where that is said elsewhere, or nothing.
    pub(crate) fn of(privilege: &str) -> Option<Cluster> {
        match privilege {
            "all" => Some(Cluster::Manage),
            "manage_pipeline" => Some(Cluster::ManagePipelines),
            name => Cluster::EACH.into_iter().find(|privilege| privilege.name() == name),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Cluster::Manage => "manage",
            Cluster::ManageIndexTemplates => "manage_index_templates",
            Cluster::ManageIlm => "manage_ilm",
            Cluster::ReadIlm => "read_ilm",
            Cluster::ManagePipelines => "manage_ingest_pipelines",
            Cluster::ReadPipelines => "read_pipeline",
        }
    }

    fn allows(self, api: &str) -> bool {
        match self {
            Cluster::Manage => {
                const ITS_OWN: [&str; 12] = [
                    "cluster.put_settings",
                    "cluster.reroute",
                    "delete_script",
                    "get_script",
                    "put_script",
                    "search_pipeline.delete",
                    "search_pipeline.get",
                    "search_pipeline.put",
                    "searchable_snapshots.cache_stats",
                    "searchable_snapshots.clear_cache",
                    "snapshot.cleanup_repository",
                    "tasks.cancel",
                ];
                let others = [Cluster::ManageIndexTemplates, Cluster::ManageIlm, Cluster::ManagePipelines];
                ITS_OWN.contains(&api) || others.into_iter().any(|other| other.allows(api))
            }
            Cluster::ManageIndexTemplates => [
                "cluster.delete_component_template",
                "cluster.get_component_template",
                "cluster.put_component_template",
                "indices.delete_index_template",
                "indices.delete_template",
                "indices.get_index_template",
                "indices.get_template",
                "indices.put_index_template",
                "indices.put_template",
                "indices.simulate_index_template",
                "indices.simulate_template",
            ]
            .contains(&api),
            Cluster::ManageIlm => {
                ["ilm.delete_lifecycle", "ilm.put_lifecycle"].contains(&api) || Cluster::ReadIlm.allows(api)
            }
            Cluster::ReadIlm => ["ilm.get_lifecycle", "ilm.get_status"].contains(&api),
            Cluster::ManagePipelines => {
                ["ingest.delete_pipeline", "ingest.put_pipeline"].contains(&api)
                    || Cluster::ReadPipelines.allows(api)
            }
            // What documents become also tells which pipelines an index has: that needs all privileges.
            Cluster::ReadPipelines => {
                ["ingest.get_pipeline", "ingest.processor_grok", "ingest.simulate"].contains(&api)
            }
        }
    }
}

/// APIs that somebody who may not do everything can use: each of them looks at the scope wherever indices are named.
const SCOPED: &[&str] = &[
    "async_search.delete",
    "async_search.get",
    "async_search.status",
    "async_search.submit",
    "bulk",
    "cat.aliases",
    "cat.count",
    "cat.indices",
    "cat.recovery",
    "cat.segments",
    "cat.shards",
    "count",
    "create",
    "delete",
    "delete_by_query",
    "explain",
    "field_caps",
    "get",
    "get_source",
    "ilm.explain_lifecycle",
    "index",
    "indices.add_block",
    "indices.analyze",
    "indices.clear_cache",
    "indices.close",
    "indices.create",
    "indices.data_streams_stats",
    "indices.delete",
    "indices.disk_usage",
    "indices.exists",
    "indices.explain_data_lifecycle",
    "indices.field_usage_stats",
    "indices.flush",
    "indices.forcemerge",
    "indices.get",
    "indices.get_alias",
    "indices.get_data_lifecycle",
    "indices.get_data_stream",
    "indices.get_data_stream_mappings",
    "indices.get_data_stream_options",
    "indices.get_data_stream_settings",
    "indices.get_field_mapping",
    "indices.get_mapping",
    "indices.get_settings",
    "indices.open",
    "indices.put_mapping",
    "indices.recovery",
    "indices.refresh",
    "indices.remove_block",
    "indices.resolve_cluster",
    "indices.resolve_index",
    "indices.segments",
    "indices.shard_stores",
    "indices.stats",
    "indices.validate_query",
    "info",
    "license.get",
    "license.get_basic_status",
    "license.get_trial_status",
    "mget",
    "msearch",
    "msearch_template",
    "mtermvectors",
    "open_point_in_time",
    "openapi",
    "otlp.logs",
    "reindex",
    "render_search_template",
    "scroll",
    "search",
    "search_shards",
    "search_template",
    "clear_scroll",
    "close_point_in_time",
    "delete_all_pits",
    "get_all_pits",
    "cluster.health",
    "security.authenticate",
    "terms_enum",
    "termvectors",
    "update",
    "update_by_query",
    "xpack.info",
];

/// APIs that the cluster privilege `monitor` allows as well: they say what the server is and does, which templates there are,
/// and of indices what the scope lets be known.
const MONITORED: &[&str] = &[
    "cat.allocation",
    "cat.component_templates",
    "cat.fielddata",
    "cat.health",
    "cat.help",
    "cat.master",
    "cat.nodeattrs",
    "cat.nodes",
    "cat.pending_tasks",
    "cat.plugins",
    "cat.tasks",
    "cat.templates",
    "cat.thread_pool",
    "cluster.allocation_explain",
    "cluster.get_component_template",
    "cluster.get_settings",
    "cluster.info",
    "cluster.pending_tasks",
    "cluster.remote_info",
    "cluster.state",
    "cluster.stats",
    "health_report",
    "indices.get_index_template",
    "indices.get_template",
    "nodes.hot_threads",
    "nodes.info",
    "nodes.stats",
    "ingest.geo_ip_stats",
    "ingest.processor_grok",
    "tasks.get",
    "tasks.list",
    "xpack.usage",
];

/// Of those of [`SCOPED`], the ones that whoever sees only some of the fields can use: they ask indices without the others, and show
/// documents without them.
const FIELD_SCOPED: &[&str] = &[
    "close_point_in_time",
    "cluster.health",
    "count",
    "explain",
    "field_caps",
    "get",
    "get_source",
    "indices.exists",
    "indices.get_field_mapping",
    "indices.get_mapping",
    "indices.validate_query",
    "info",
    "license.get",
    "mget",
    "msearch",
    "mtermvectors",
    "open_point_in_time",
    "openapi",
    "search",
    "security.authenticate",
    "termvectors",
];

/// The indices that a request may touch.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// None for everything.
    grants: Option<Arc<[Grant]>>,
    privilege: Privilege,
    /// Whether figures of the server may be read.
    monitors: bool,
    snapshots: Snapshots,
    cluster: Arc<[Cluster]>,
}

impl Scope {
    pub(crate) fn all() -> Scope {
        Scope::of(None)
    }

    pub(crate) fn of(grants: Option<Vec<Grant>>) -> Scope {
        let monitors = grants.is_none();
        let snapshots = if monitors { Snapshots::Manage } else { Snapshots::Nothing };
        let (privilege, cluster) = (Privilege::View, Arc::default());
        Scope { grants: grants.map(Arc::from), privilege, monitors, snapshots, cluster }
    }

    /// The same, which may also read figures of the server if `monitors`.
    pub(crate) fn monitoring(self, monitors: bool) -> Scope {
        Scope { monitors: self.monitors || monitors, ..self }
    }

    /// The same, which may also do this with snapshots.
    pub(crate) fn with_snapshots(self, snapshots: Snapshots) -> Scope {
        Scope { snapshots: self.snapshots.max(snapshots), ..self }
    }

    /// The same, which may also do this.
    pub(crate) fn with_cluster(self, cluster: Vec<Cluster>) -> Scope {
        Scope { cluster: cluster.into(), ..self }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.grants.is_none()
    }

    /// What this is for a request of this API. An error of status 403 where it may not be used at all.
    pub(crate) fn for_api(&self, api: &Api, client: &str) -> Result<Scope> {
        let privilege = match api.action {
            Action::Read | Action::Release => Privilege::Read,
            Action::Write => Privilege::Write,
            Action::CreateIndex => Privilege::CreateIndex,
            Action::DeleteIndex => Privilege::DeleteIndex,
            Action::Probe | Action::Observe | Action::Monitor | Action::ViewIndex | Action::Manage => {
                Privilege::View
            }
        };
        let needed = Snapshots::needed(api.name);
        let is_monitored = api.action == Action::Observe || MONITORED.contains(&api.name);
        let is_allowed = match api.action {
            Action::Probe => true,
            Action::Observe => self.monitors,
            _ if needed != Snapshots::Nothing => self.snapshots >= needed,
            _ if self.is_all() || SCOPED.contains(&api.name) => true,
            _ => (self.monitors && is_monitored) || self.cluster.iter().any(|may| may.allows(api.name)),
        };
        if is_allowed && api.action != Action::Probe {
            self.check_fields(FIELD_SCOPED.contains(&api.name), api.name)?;
        }
        if is_allowed {
            return Ok(Scope { privilege, ..self.clone() });
        }
        let of_cluster = || Cluster::EACH.into_iter().find(|may| may.allows(api.name)).map(Cluster::name);
        let or = if is_monitored { Some("monitor") } else { needed.name().or_else(of_cluster) };
        let or = or.map_or(String::new(), |privilege| format!(" or the cluster privilege [{privilege}]"));
        let name = api.name;
        let reason =
            format!("action [{name}] is unauthorized for {client}: it needs a key with all privileges{or}");
        Err(ApiError::new(StatusCode::FORBIDDEN, "security_exception", reason))
    }

    /// Whether some fields of some documents are not seen.
    pub(crate) fn limits_fields(&self) -> bool {
        self.grants.iter().flat_map(|grants| grants.iter()).any(|grant| grant.fields.is_some())
    }

    /// Refuses what shows, or may show, fields that are not seen.
    pub(crate) fn check_fields(&self, is_held: bool, what: &str) -> Result<()> {
        if is_held || !self.limits_fields() {
            return Ok(());
        }
        let reason = format!("action [{what}] is unauthorized for a key with [field_security]");
        Err(ApiError::new(StatusCode::FORBIDDEN, "security_exception", reason))
    }

    /// By which rules fields are seen in an index that has these names: by any of them. None where all are.
    ///
    /// What is known of an index shows no more fields than its documents do: where a grant lets these be read, one that does
    /// not says nothing of fields.
    pub(crate) fn fields(&self, names: &[&str]) -> Option<Vec<FieldRules>> {
        let covers = |grant: &&Grant| {
            names.iter().any(|name| grant.names.iter().any(|pattern| wildcard_matches(pattern, name)))
        };
        let granting = |privilege: Privilege| {
            let all = self.grants.iter().flat_map(|grants| grants.iter()).filter(covers);
            all.filter(move |grant| privilege.is_in(&grant.privileges))
        };
        self.grants.as_ref()?;
        let of = match self.privilege {
            Privilege::View if granting(Privilege::Read).next().is_some() => Privilege::Read,
            privilege => privilege,
        };
        granting(of).map(|grant| grant.fields.clone()).collect()
    }

    /// Refuses what is for those who may use another API.
    pub(crate) fn check_also(&self, api: &str, client: &str) -> Result<()> {
        let api = APIS.iter().find(|known| known.name == api);
        let api = api.ok_or_else(|| frostline_base::Error::internal("an API that there is none of"))?;
        self.for_api(api, client).map(drop)
    }

    /// The same for another privilege.
    pub(crate) fn to(&self, privilege: Privilege) -> Scope {
        Scope { privilege, ..self.clone() }
    }

    /// Whether the request may touch this index, or an alias of this name.
    pub(crate) fn allows(&self, name: &IndexName) -> bool {
        let Some(grants) = &self.grants else { return true };
        grants.iter().any(|grant| {
            let is_granted = self.privilege.is_in(&grant.privileges);
            is_granted && grant.names.iter().any(|pattern| wildcard_matches(pattern, name.as_str()))
        })
    }

    /// Refuses a name that the request may not touch.
    pub(crate) fn check(&self, name: &IndexName) -> Result<()> {
        match self.allows(name) {
            true => Ok(()),
            false => Err(self.forbidden(name.as_str())),
        }
    }

    pub(crate) fn forbidden(&self, name: &str) -> ApiError {
        let privilege = self.privilege.name();
        let reason = format!("the privilege [{privilege}] is not granted on the index [{name}]");
        ApiError::new(StatusCode::FORBIDDEN, "security_exception", reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(names: &[&str], privileges: &[&str]) -> Scope {
        let privileges = privileges.iter().flat_map(|name| Privilege::of(name).unwrap()).collect();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Scope::of(Some(vec![Grant { names, privileges, fields: None }]))
    }

    fn api(name: &str) -> &'static Api {
        APIS.iter().find(|api| api.name == name).unwrap()
    }

    #[test]
    fn a_request_touches_what_its_action_was_granted_for() {
        let scope = scope(&["web-*", "app"], &["read"]);
        let allows =
            |of: &str, name: &str| scope.for_api(api(of), "a key").unwrap().allows(&name.parse().unwrap());
        assert!(allows("search", "web-1") && allows("count", "app") && allows("indices.get_mapping", "app"));
        assert!(!allows("search", "web") && !allows("bulk", "web-1") && !allows("indices.delete", "app"));
        let full = Scope::all().for_api(api("sql.query"), "a user").unwrap();
        assert!(full.allows(&"anything".parse().unwrap()));
    }

    #[test]
    fn who_may_make_indices_may_not_delete_them() {
        let may = |privilege: &str| {
            let scope = scope(&["*"], &[privilege]);
            ["indices.create", "indices.delete"]
                .map(|name| scope.for_api(api(name), "a key").unwrap().allows(&"web".parse().unwrap()))
        };
        assert_eq!(may("create_index"), [true, false]);
        assert_eq!(may("delete_index"), [false, true]);
        assert_eq!(may("manage"), [true, true]);
        assert_eq!(may("all"), [true, true]);
    }

    /// Who grants again what is shown grants neither more nor less.
    #[test]
    fn privileges_are_shown_as_what_grants_them() {
        for name in [
            "all",
            "read",
            "create_doc",
            "write",
            "create_index",
            "delete_index",
            "manage",
            "view_index_metadata",
        ] {
            assert_eq!(Privilege::names(&Privilege::of(name).unwrap()), [name]);
        }
    }

    #[test]
    fn what_does_not_look_at_the_scope_needs_everything() {
        let scope = scope(&["*"], &["all"]);
        for name in [
            "sql.query",
            "indices.update_aliases",
            "tasks.list",
            "tasks.cancel",
            "indices.put_index_template",
        ] {
            assert_eq!(
                scope.for_api(api(name), "a key").unwrap_err().status,
                StatusCode::FORBIDDEN,
                "{name}"
            );
        }
        assert!(FIELD_SCOPED.iter().all(|name| SCOPED.contains(name)));
        for name in SCOPED {
            assert!(scope.for_api(api(name), "a key").is_ok(), "{name}");
        }
        assert!(Privilege::of("superuser").is_err());
        let monitor = scope.monitoring(true);
        for name in MONITORED {
            assert!(!SCOPED.contains(name) && monitor.for_api(api(name), "a key").is_ok(), "{name}");
        }
        assert!(monitor.for_api(api("tasks.cancel"), "a key").is_err());
    }

    #[test]
    fn a_mapping_shows_the_fields_that_documents_show() {
        let rules = FieldRules { grant: vec!["a".to_owned()], except: Vec::new() };
        let grant = |name: &str, privilege: &str, fields: Option<&FieldRules>| Grant {
            names: vec![name.to_owned()],
            privileges: Privilege::of(privilege).unwrap(),
            fields: fields.cloned(),
        };
        let seen = |grants: &[Grant], of: &str| {
            let scope = Scope::of(Some(grants.to_vec())).for_api(api(of), "a key").unwrap();
            scope.fields(&["web"])
        };
        for also in ["create_doc", "write", "manage", "view_index_metadata"] {
            let grants = [grant("w*", "read", Some(&rules)), grant("*", also, None)];
            for of in ["search", "indices.get_mapping"] {
                assert_eq!(seen(&grants, of), Some(vec![rules.clone()]), "{also} {of}");
            }
        }
        // One that reads all fields does so, and one of another index says nothing of this.
        let all = [grant("w*", "read", Some(&rules)), grant("web", "read", None)];
        assert_eq!(seen(&all, "indices.get_mapping"), None);
        let other = [grant("w*", "read", Some(&rules)), grant("app", "read", None)];
        assert_eq!(seen(&other, "indices.get_mapping"), Some(vec![rules.clone()]));
        // Who reads no documents of it is shown what the grants of it say.
        let blind = [grant("web", "create_doc", None), grant("app", "read", Some(&rules))];
        assert_eq!(seen(&blind, "indices.get_mapping"), None);
    }

    #[test]
    fn snapshots_are_for_keys_that_may_use_them() {
        let of = |snapshots| scope(&["web-*"], &["all"]).with_snapshots(snapshots);
        let may = |snapshots, name: &str| of(snapshots).for_api(api(name), "a key").is_ok();
        let all = ["snapshot.get", "snapshot.create", "snapshot.restore", "snapshot.create_repository"];
        for (snapshots, allowed) in
            [(Snapshots::Nothing, 0), (Snapshots::Monitor, 1), (Snapshots::Create, 2), (Snapshots::Manage, 3)]
        {
            assert_eq!(
                all.map(|name| may(snapshots, name)),
                [0, 1, 2, 3].map(|n| n < allowed),
                "{snapshots:?}"
            );
            assert_eq!(snapshots.name().map_or(Snapshots::Nothing, Snapshots::of), snapshots);
        }
        let refused = of(Snapshots::Monitor).for_api(api("snapshot.create"), "a key").unwrap_err();
        assert!(refused.reason.contains("[create_snapshot]"), "{}", refused.reason);
    }

    #[test]
    fn a_cluster_privilege_allows_what_it_names_and_nothing_else() {
        let may = |cluster: &str, name: &str| {
            let cluster = vec![Cluster::of(cluster).unwrap()];
            scope(&["*"], &["read"]).with_cluster(cluster).for_api(api(name), "a key")
        };
        let each = [
            ("manage_index_templates", "indices.put_index_template"),
            ("manage_ilm", "ilm.put_lifecycle"),
            ("manage_ingest_pipelines", "ingest.put_pipeline"),
        ];
        for (privilege, _) in each {
            for (of, name) in each {
                let allowed = may(privilege, name);
                assert_eq!(allowed.is_ok(), privilege == of, "{privilege} {name}");
                if let Err(refused) = allowed {
                    assert!(
                        refused.reason.ends_with(&format!("or the cluster privilege [{of}]")),
                        "{refused:?}"
                    );
                }
            }
            for name in ["sql.query", "security.create_api_key", "search_pipeline.put", "tasks.cancel"] {
                assert!(may(privilege, name).is_err(), "{privilege} {name}");
            }
        }
        assert!(
            may("read_pipeline", "ingest.get_pipeline").is_ok() && may("read_ilm", "ilm.get_status").is_ok()
        );
        assert!(
            may("read_pipeline", "ingest.put_pipeline").is_err()
                && may("read_ilm", "ilm.put_lifecycle").is_err()
        );
        for name in
            ["ilm.put_lifecycle", "ingest.put_pipeline", "indices.put_template", "put_script", "tasks.cancel"]
        {
            assert!(may("manage", name).is_ok(), "{name}");
        }
        for api in APIS.iter().filter(|api| api.name.starts_with("security.") || api.name == "sql.query") {
            let is_for_all = api.name == "security.authenticate";
            assert_eq!(may("manage", api.name).is_ok(), is_for_all, "{}", api.name);
        }
        for privilege in Cluster::EACH {
            assert_eq!(Cluster::of(privilege.name()), Some(privilege));
            assert_eq!(serde_json::to_value(privilege).unwrap(), privilege.name());
        }
    }

    #[test]
    fn a_field_is_meant_by_its_path_or_by_what_it_is_in() {
        let sees = |grant: &[&str], except: &[&str], path: &str| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            FieldRules { grant: owned(grant), except: owned(except) }.sees(path)
        };
        assert!(sees(&["*"], &[], "a.b") && sees(&["a"], &[], "a.b.c") && sees(&["a.*"], &[], "a.b"));
        assert!(!sees(&["a.*"], &[], "a") && !sees(&["a"], &[], "ab") && !sees(&[], &[], "a"));
        assert!(
            !sees(&["*"], &["a"], "a.b")
                && !sees(&["*"], &["a.b*"], "a.bc.d")
                && sees(&["*"], &["a.b"], "a.bc")
        );
    }
}
