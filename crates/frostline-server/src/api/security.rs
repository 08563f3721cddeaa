//! `_security`: who may do what.

use frostline_base::wildcard_matches;
use frostline_catalog::{RecordChange, Records};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::auth::{self, API_KEY, Credential, Realm, USER};
use crate::error::{ApiError, Result};
use crate::scope::{Cluster, FieldRules, Grant, Privilege, Snapshots};
use crate::state::{Call, State, only, only_in};

/// The longest body that is kept with a key or a user.
const BYTES_MAX: usize = 64 << 10;

/// `GET /_security/_authenticate`.
pub(crate) async fn authenticate(call: Call) -> Result<Answer> {
    let client = &call.client;
    let (kind, realm) = match (&client.key, client.realm) {
        (Some(_), _) => ("api_key", "_es_api_key"),
        (None, Realm::Native) => ("realm", "native"),
        (None, Realm::Jwt) => ("realm", "jwt"),
        (None, Realm::Anonymous) => ("anonymous", "__anonymous"),
    };
    let realm = json!({ "name": realm, "type": realm });
    let mut answer = json!({
        "username": client.user,
        "roles": client.roles,
        "full_name": null,
        "email": null,
        "metadata": {},
        "enabled": true,
        "authentication_realm": realm,
        "lookup_realm": realm,
        "authentication_type": kind,
    });
    if let Some((id, name)) = &client.key {
        answer["api_key"] = json!({ "id": id, "name": name });
    }
    Answer::json(&answer)
}

/// `POST /_security/api_key`.
pub(crate) async fn create_key(call: Call) -> Result<Answer> {
    let body = kept_body(&call)?;
    only(&body, &["expiration", "metadata", "name", "role_descriptors"])?;
    let name = body.get("name").and_then(Value::as_str).filter(|name| (1..=256).contains(&name.len()));
    let name = name.ok_or_else(|| ApiError::invalid("Validation Failed: 1: api key name is required;"))?;
    let now_ms = call.state.node.clock().now_us() / 1_000;
    let expires_ms = match body.get("expiration") {
        None | Some(Value::Null) => None,
        Some(Value::String(time)) => {
            let time_ms = crate::params::duration(time, "expiration")?.as_millis();
            Some(now_ms.saturating_add(i64::try_from(time_ms).unwrap_or(i64::MAX)))
        }
        Some(other) => {
            return Err(ApiError::unparsed(format!("[expiration] is {other}, not a time such as 30d")));
        }
    };
    let Granted { grants, monitor, snapshots, cluster, warnings } = granted(body.get("role_descriptors"))?;
    let owner = call.client.user.clone();
    let metadata = body.get("metadata").cloned().unwrap_or(Value::Null);
    let role_descriptors = body.get("role_descriptors").cloned().unwrap_or(Value::Null);
    let about = |key: Credential| Credential {
        name: name.to_owned(),
        role_descriptors,
        owner,
        expires_ms,
        grants,
        monitor,
        snapshots,
        cluster,
        metadata,
        ..key
    };
    let (id, secret) = make_key(&call.state, about).await?;
    let mut answer = json!({
        "id": id, "name": name, "api_key": secret, "encoded": auth::encoded(&id, &secret),
    });
    if let Some(expires_ms) = expires_ms {
        answer["expiration"] = json!(expires_ms);
    }
    Ok(Answer::json(&answer)?.with_warnings(warnings))
}

/// A body of which parts are kept.
fn kept_body(call: &Call) -> Result<Map<String, Value>> {
    match call.body.len() > BYTES_MAX {
        true => Err(ApiError::invalid(format!("what is kept has at most {BYTES_MAX} bytes"))),
        false => call.object(),
    }
}

/// Makes a key and keeps it; its id and its secret.
async fn make_key(state: &State, about: impl FnOnce(Credential) -> Credential) -> Result<(String, String)> {
    let (id, secret) = (auth::secret(&state.random), auth::secret(&state.random));
    let id = id[..20].to_owned();
    let key = about(auth::of_hash(state, auth::hash_of_key(&secret)));
    let change = kept(API_KEY, &id, Some(&key))?;
    state.node.catalog().change_records("api key", |_| Ok(vec![change.clone()])).await?;
    Ok((id, secret))
}

/// Whether there are keys or users in the repository.
pub(crate) fn has_credentials(records: &Records) -> bool {
    records.others(API_KEY).chain(records.others(USER)).next().is_some()
}

/// Makes a key that may do everything, if there is no key and no user in the repository yet, as a client sends it.
pub(crate) async fn first_key(state: &State) -> Result<Option<String>> {
    if has_credentials(&state.node.catalog().records().await?) {
        return Ok(None);
    }
    let name = |key: Credential| Credential { name: "admin".to_owned(), owner: "admin".to_owned(), ..key };
    let (id, secret) = make_key(state, name).await?;
    Ok(Some(auth::encoded(&id, &secret)))
}

fn kept(kind: &'static str, name: &str, credential: Option<&Credential>) -> Result<RecordChange> {
    let unwritten = |e| frostline_base::Error::internal("a key cannot be written as JSON").with_source(e);
    let value = credential.map(serde_json::to_value).transpose().map_err(unwritten)?;
    Ok(RecordChange::Other { kind, name: name.to_owned(), value })
}

/// What role descriptors grant, all together.
#[derive(Default)]
struct Granted {
    /// None for everything.
    grants: Option<Vec<Grant>>,
    /// Whether figures of the server may be read.
    monitor: bool,
    /// What may be done with snapshots.
    snapshots: Snapshots,
    /// What else may be done.
    cluster: Vec<Cluster>,
    /// What of it has no effect.
    warnings: Vec<String>,
}

fn granted(descriptors: Option<&Value>) -> Result<Granted> {
    let descriptors = match descriptors {
        None | Some(Value::Null) => return Ok(Granted::default()),
        Some(Value::Object(descriptors)) if descriptors.is_empty() => return Ok(Granted::default()),
        Some(Value::Object(descriptors)) => descriptors,
        Some(_) => return Err(ApiError::unparsed("[role_descriptors] is an object")),
    };
    let (mut grants, mut cluster, mut of_nothing) = (Vec::new(), Vec::new(), Vec::new());
    for (role, descriptor) in descriptors {
        let wrong = |what: &str| ApiError::unparsed(format!("the role [{role}] {what}"));
        let descriptor = descriptor.as_object().ok_or_else(|| wrong("is an object"))?;
        only_in("role_descriptors", descriptor, &["cluster", "description", "index", "indices", "metadata"])?;
        cluster.extend(names(descriptor.get("cluster")).ok_or_else(|| wrong("has a list [cluster]"))?);
        for member in ["index", "indices"] {
            let Some(of_indices) = descriptor.get(member) else { continue };
            for of_index in of_indices.as_array().ok_or_else(|| wrong("has a list of indices"))? {
                grants.push(grant(of_index)?);
                of_nothing.extend(names(of_index.get("privileges")).into_iter().flatten());
            }
        }
    }
    let is_full = |grant: &Grant| {
        grant.fields.is_none()
            && grant.names.iter().any(|name| name == "*")
            && Privilege::ALL.iter().all(|privilege| grant.privileges.contains(privilege))
    };
    if cluster.iter().any(|privilege| privilege == "all") && grants.iter().any(is_full) {
        return Ok(Granted::default());
    }
    let monitor = cluster.iter().any(|privilege| ["all", "manage", "monitor"].contains(&privilege.as_str()));
    let snapshots = cluster.iter().map(|privilege| Snapshots::of(privilege)).max().unwrap_or_default();
    let mut may: Vec<Cluster> = Vec::new();
    for privilege in cluster.iter().filter_map(|name| Cluster::of(name)) {
        if !may.contains(&privilege) {
            may.push(privilege);
        }
    }
    let of_cluster = cluster.iter().filter_map(|name| match name.as_str() {
        "all" => Some(
            "the cluster privilege [all] allows no more than [manage] without [all] on the index [*]"
                .to_owned(),
        ),
        "monitor" | "create_snapshot" | "monitor_snapshot" => None,
        name if Cluster::of(name).is_some() => None,
        name => Some(format!("the cluster privilege [{name}] has no effect")),
    });
    of_nothing.retain(|name: &String| Privilege::WITHOUT_EFFECT.contains(&name.as_str()));
    let of_indices = of_nothing.iter().map(|name| match name.as_str() {
        "delete" => {
            "the index privilege [delete] has no effect: [write] allows to delete documents".to_owned()
        }
        name => format!("the index privilege [{name}] has no effect"),
    });
    let mut warnings: Vec<String> = of_cluster.chain(of_indices).collect();
    warnings.sort_unstable();
    warnings.dedup();
    Ok(Granted { grants: Some(grants), monitor, snapshots, cluster: may, warnings })
}

/// The same, as role descriptors that grant it.
fn descriptors(grants: &[Grant], monitor: bool, snapshots: Snapshots) -> Value {
    let indices = grants.iter().map(|Grant { names, privileges, fields }| {
        let mut shown = json!({ "names": names, "privileges": Privilege::names(privileges) });
        if let Some(fields) = fields {
            shown["field_security"] = json!(fields);
        }
        shown
    });
    let mut key = json!({ "indices": indices.collect::<Vec<_>>() });
    let cluster: Vec<&str> = monitor.then_some("monitor").into_iter().chain(snapshots.name()).collect();
    if !cluster.is_empty() {
        key["cluster"] = json!(cluster);
    }
    json!({ "key": key })
}

fn grant(value: &Value) -> Result<Grant> {
    let object =
        value.as_object().ok_or_else(|| ApiError::unparsed("privileges of indices are an object"))?;
    if object.get("query").is_some_and(|query| !query.is_null()) {
        return Err(ApiError::unsupported("[query] is not supported: give the key an alias with a filter"));
    }
    only_in(
        "indices",
        object,
        &["allow_restricted_indices", "field_security", "names", "privileges", "query"],
    )?;
    let list = |member: &str| {
        let list = object.get(member).and_then(|value| names(Some(value))).filter(|list| !list.is_empty());
        list.ok_or_else(|| ApiError::unparsed(format!("[{member}] is a list of texts")))
    };
    let mut privileges: Vec<Privilege> = Vec::new();
    for name in list("privileges")? {
        for privilege in Privilege::of(&name)? {
            if !privileges.contains(&privilege) {
                privileges.push(privilege);
            }
        }
    }
    Ok(Grant { names: list("names")?, privileges, fields: field_rules(object.get("field_security"))? })
}

fn field_rules(value: Option<&Value>) -> Result<Option<FieldRules>> {
    let rules = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(rules)) => rules,
        Some(_) => return Err(ApiError::unparsed("[field_security] is an object")),
    };
    only_in("field_security", rules, &["except", "grant"])?;
    let list = |name: &str| {
        let list = names(rules.get(name));
        list.ok_or_else(|| ApiError::unparsed(format!("[{name}] of [field_security] is a list of fields")))
    };
    let (grant, except) = (list("grant")?, list("except")?);
    let grant = match rules.get("grant") {
        None | Some(Value::Null) if except.is_empty() => {
            return Err(ApiError::unparsed("[field_security] has [grant], [except] or both"));
        }
        None | Some(Value::Null) => vec!["*".to_owned()],
        Some(_) => grant,
    };
    Ok(Some(FieldRules { grant, except }))
}

fn names(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(name)) => Some(vec![name.clone()]),
        Some(Value::Array(all)) => all.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// Which keys are meant.
#[derive(Default)]
struct Meant {
    ids: Option<Vec<String>>,
    name: Option<String>,
    user: Option<String>,
}

impl Meant {
    fn is_it(&self, id: &str, key: &Credential) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.iter().any(|wanted| wanted == id))
            && self.name.as_ref().is_none_or(|name| wildcard_matches(name, &key.name))
            && self.user.as_ref().is_none_or(|user| *user == key.owner)
    }
}

fn keys(records: &Records, meant: &Meant) -> Result<Vec<(String, Credential)>> {
    let keys = records.others(API_KEY).map(|(id, record)| Ok((id.to_owned(), auth::read(record)?)));
    let keys: Vec<(String, Credential)> = keys.collect::<Result<_>>()?;
    Ok(keys.into_iter().filter(|(id, key)| meant.is_it(id, key)).collect())
}

/// `GET /_security/api_key`.
pub(crate) async fn get_keys(call: Call) -> Result<Answer> {
    let text = |name: &str| call.params.get(name).map(str::to_owned);
    let owned = call.params.flag("owner")?.unwrap_or(false).then(|| call.client.user.clone());
    let meant =
        Meant { ids: text("id").map(|id| vec![id]), name: text("name"), user: text("username").or(owned) };
    let active = call.params.flag("active_only")?.unwrap_or(false);
    let now_ms = call.state.node.clock().now_us() / 1_000;
    let found = keys(&call.state.node.catalog().records().await?, &meant)?;
    if found.is_empty()
        && let Some(ids) = &meant.ids
    {
        let reason = format!("api key with id {ids:?} not found");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
    }
    let shown = found.iter().filter(|(_, key)| !active || key.is_active(now_ms)).map(|(id, key)| {
        let role_descriptors = match (&key.role_descriptors, key.grants.as_deref()) {
            // Keys of an earlier version have only what was granted.
            (Value::Null, Some(grants)) => descriptors(grants, key.monitor, key.snapshots),
            (Value::Null, None) => json!({}),
            (given, _) => given.clone(),
        };
        let mut shown = json!({
            "id": id,
            "name": key.name,
            "type": "rest",
            "creation": key.created_ms,
            "invalidated": key.invalidated_ms.is_some(),
            "username": key.owner,
            "realm": "native",
            "metadata": if key.metadata.is_null() { json!({}) } else { key.metadata.clone() },
            "role_descriptors": role_descriptors,
        });
        for (name, ms) in [("expiration", key.expires_ms), ("invalidation", key.invalidated_ms)] {
            if let Some(ms) = ms {
                shown[name] = json!(ms);
            }
        }
        shown
    });
    Answer::json(&json!({ "api_keys": shown.collect::<Vec<_>>() }))
}

/// `DELETE /_security/api_key`.
pub(crate) async fn invalidate_keys(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["id", "ids", "name", "owner", "realm_name", "username"])?;
    let ids = names(body.get("ids").or(body.get("id"))).filter(|ids| !ids.is_empty());
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let owned = (body.get("owner") == Some(&json!(true))).then(|| call.client.user.clone());
    let meant = Meant { ids, name: text("name"), user: text("username").or(owned) };
    if meant.ids.is_none() && meant.name.is_none() && meant.user.is_none() {
        return Err(ApiError::invalid(
            "Validation Failed: 1: One of [ids, name, username, owner] must be given;",
        ));
    }
    let now_ms = call.state.node.clock().now_us() / 1_000;
    let catalog = call.state.node.catalog();
    let found = keys(&catalog.records().await?, &meant)?;
    let (open, before): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, key)| key.invalidated_ms.is_none());
    let changes = open.iter().map(|(id, key)| {
        kept(API_KEY, id, Some(&Credential { invalidated_ms: Some(now_ms), ..key.clone() }))
    });
    let changes: Vec<RecordChange> = changes.collect::<Result<_>>()?;
    catalog.change_records("invalidate api keys", |_| Ok(changes.clone())).await?;
    let ids = |keys: &[(String, Credential)]| keys.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    Answer::json(&json!({
        "invalidated_api_keys": ids(&open), "previously_invalidated_api_keys": ids(&before), "error_count": 0,
    }))
}

/// The roles that there are, and what they grant; none for everything.
pub(crate) fn role(name: &str) -> Result<Option<Grant>> {
    let on_all = |privileges: &[Privilege]| {
        Some(Grant { names: vec!["*".to_owned()], privileges: privileges.to_vec(), fields: None })
    };
    match name {
        "superuser" => Ok(None),
        "viewer" => Ok(on_all(&[Privilege::Read])),
        "editor" => Ok(on_all(&[Privilege::Read, Privilege::Write, Privilege::Edit])),
        other => Err(ApiError::invalid(format!("unknown role [{other}]: use superuser, editor or viewer"))),
    }
}

/// `PUT /_security/user/{username}`.
pub(crate) async fn put_user(call: Call) -> Result<Answer> {
    let name = call.part("username").unwrap_or_default();
    if name.is_empty()
        || name.len() > 256
        || name.starts_with('_')
        || name.contains(|c: char| c.is_control() || c == ':')
    {
        return Err(ApiError::invalid(
            "a user's name has 1 to 256 characters, no colon, and does not begin with an underscore",
        ));
    }
    let body = kept_body(&call)?;
    only(&body, &["email", "enabled", "full_name", "metadata", "password", "roles"])?;
    if body.get("enabled") == Some(&json!(false)) {
        return Err(ApiError::unsupported("a user is not disabled: delete it"));
    }
    let roles = names(body.get("roles")).ok_or_else(|| ApiError::unparsed("[roles] is a list of names"))?;
    let grants: Option<Vec<Grant>> =
        roles.iter().map(|name| role(name)).collect::<Result<Vec<_>>>()?.into_iter().collect();
    let catalog = call.state.node.catalog();
    let old = catalog.records().await?.other(USER, name).map(auth::read).transpose()?;
    let secret = match (body.get("password").and_then(Value::as_str), &old) {
        (Some(password), _) => auth::password(&call.state, password).await?,
        (None, Some(old)) => old.clone(),
        (None, None) => {
            return Err(ApiError::invalid(
                "Validation Failed: 1: password must be specified unless you are updating an existing user;",
            ));
        }
    };
    // A user without a role may do nothing.
    let full_name = body.get("full_name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = body.get("metadata").cloned().unwrap_or(Value::Null);
    let user =
        Credential { name: full_name, owner: call.client.user.clone(), grants, roles, metadata, ..secret };
    let change = kept(USER, name, Some(&user))?;
    catalog.change_records("user", |_| Ok(vec![change.clone()])).await?;
    Answer::json(&json!({ "created": old.is_none() }))
}

/// `GET /_security/user/{username}`.
pub(crate) async fn get_users(call: Call) -> Result<Answer> {
    let wanted: Option<Vec<&str>> = call.part("username").map(|names| names.split(',').collect());
    let records = call.state.node.catalog().records().await?;
    let found =
        records.others(USER).filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted.contains(name)));
    let mut shown = Map::new();
    for (name, record) in found {
        let user = auth::read(record)?;
        let about = json!({
            "username": name, "roles": user.roles, "full_name": user.name, "email": null,
            "metadata": if user.metadata.is_null() { json!({}) } else { user.metadata }, "enabled": true,
        });
        shown.insert(name.to_owned(), about);
    }
    let is_missing = shown.is_empty() && wanted.is_some();
    Ok(Answer::json(&shown)?.with_status(if is_missing { StatusCode::NOT_FOUND } else { StatusCode::OK }))
}

/// `DELETE /_security/user/{username}`.
pub(crate) async fn delete_user(call: Call) -> Result<Answer> {
    let name = call.part("username").unwrap_or_default();
    let catalog = call.state.node.catalog();
    let found = catalog.records().await?.other(USER, name).is_some();
    if found {
        let change = kept(USER, name, None)?;
        catalog.change_records("delete user", |_| Ok(vec![change.clone()])).await?;
    }
    let answer = Answer::json(&json!({ "found": found }))?;
    Ok(answer.with_status(if found { StatusCode::OK } else { StatusCode::NOT_FOUND }))
}

#[cfg(test)]
mod tests;
