//! `_tasks`: the searches that run or wait.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::by_query;
use crate::api::cluster::about_node;
use crate::api::info::{NAME, uuid};
use crate::error::{ApiError, Result};
use crate::searches::Task;
use crate::state::{Call, State};

/// `GET /_tasks`.
pub(crate) async fn list(call: Call) -> Result<Answer> {
    let asked = Asked::of(&call)?;
    let tasks = with_own(&call);
    answer(&call, tasks.iter().filter(|task| asked.is_it(task)))
}

/// `GET /_tasks/{task_id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let id = call.part("task_id").unwrap_or_default();
    let number = number(&call.state, id)?;
    if let Some(mut job) = call.state.jobs.get(number) {
        if call.params.flag("wait_for_completion")?.unwrap_or(false) {
            let longest = call.params.duration("timeout")?.unwrap_or(WAIT);
            // What is not done then is answered as it is.
            let _ = tokio::time::timeout(longest, job.wait()).await;
        }
        let result = job.result();
        let mut answer = json!({ "completed": result.is_some(), "task": shown(&call.state, &job.task) });
        match result {
            None => {}
            Some(Ok(response)) => answer["response"] = response,
            Some(Err(error)) => answer["error"] = error.to_json(),
        }
        return Answer::json(&answer);
    }
    let tasks = call.state.searches.tasks();
    let task = tasks.iter().find(|task| task.number == number).ok_or_else(|| missing(id))?;
    Answer::json(&json!({ "completed": false, "task": shown(&call.state, task) }))
}

/// Begins what the request does not wait for, and answers the task that it is.
pub(crate) fn begin(
    call: &Call,
    api: &'static str,
    about: String,
    job: impl Future<Output = Result<Value>> + Send + 'static,
) -> Result<Answer> {
    let task = Task { about, ..own(call, api) };
    let id = format!("{}:{}", uuid(&call.state), task.number);
    call.state.jobs.begin(task, job)?;
    Answer::json(&json!({ "task": id }))
}

/// `POST /_tasks/_cancel`, of those that are asked for.
pub(crate) async fn cancel(call: Call) -> Result<Answer> {
    let asked = Asked::of(&call)?;
    let tasks = call.state.searches.tasks();
    let wanted = tasks.iter().filter(|task| asked.is_it(task));
    answer(&call, wanted.filter(|task| call.state.searches.cancel(task.number)))
}

/// `POST /_tasks/{task_id}/_cancel`.
pub(crate) async fn cancel_one(call: Call) -> Result<Answer> {
    let id = call.part("task_id").unwrap_or_default();
    let number = number(&call.state, id)?;
    let tasks = call.state.searches.tasks();
    let task = tasks.iter().find(|task| task.number == number && call.state.searches.cancel(number));
    answer(&call, std::iter::once(task.ok_or_else(|| missing(id))?))
}

/// `POST /_reindex/{task_id}/_rethrottle` and the like: the task, if it still runs. It is as fast as it can be all the same.
pub(crate) async fn rethrottle(call: Call) -> Result<Answer> {
    by_query::speed(Some(call.params.get("requests_per_second").unwrap_or_default()))?;
    let id = call.part("task_id").unwrap_or_default();
    let running = number(&call.state, id).and_then(|number| {
        let mut tasks = call.state.jobs.running().into_iter();
        tasks.find(|task| task.number == number).ok_or_else(|| missing(id))
    });
    let answer = match running {
        Ok(task) => answer(&call, std::iter::once(&task))?,
        Err(error) => {
            let node = id.split_once(':').map_or(id, |(node, _)| node);
            let is_here = node == uuid(&call.state);
            let kind = if is_here { error.kind } else { "no_such_node_exception" };
            let cause = json!({ "type": kind, "reason": error.reason });
            let failure = json!({
                "type": "failed_node_exception", "reason": format!("Failed node [{node}]"), "node_id": node,
                "caused_by": cause,
            });
            Answer::json(&json!({ "nodes": {}, "node_failures": [failure] }))?
        }
    };
    Ok(answer.with_warnings(["[requests_per_second] has no effect: the task is not slowed down".to_owned()]))
}

/// The searches that run or wait, what else was begun and runs, and this request.
pub(crate) fn with_own(call: &Call) -> Vec<Task> {
    let mut tasks = call.state.searches.tasks();
    tasks.extend(call.state.jobs.running());
    tasks.push(own(call, LIST));
    tasks
}

/// The task that a request is.
pub(crate) fn own(call: &Call, api: &'static str) -> Task {
    let opaque_id = call.headers.get("x-opaque-id").and_then(|id| id.to_str().ok());
    Task {
        number: call.state.searches.next_number(),
        api,
        about: String::new(),
        opaque_id: opaque_id.map(str::to_owned),
        begun_us: call.state.node.clock().now_us(),
        begun: Instant::now(),
    }
}

/// Which tasks are meant.
struct Asked {
    actions: Option<Vec<String>>,
    is_here: bool,
}

impl Asked {
    fn of(call: &Call) -> Result<Asked> {
        let nodes = call.params.list("nodes").unwrap_or_default();
        let here = |node: &&str| ["_all", "_local", "*", NAME].contains(node) || **node == uuid(&call.state);
        let group = call.params.get("group_by").unwrap_or("nodes");
        if !["nodes", "none", "parents"].contains(&group) {
            return Err(ApiError::invalid(format!("[group_by] is nodes, parents or none, not [{group}]")));
        }
        let actions = call.params.list("actions");
        Ok(Asked {
            actions: actions.map(|actions| actions.into_iter().map(str::to_owned).collect()),
            is_here: nodes.is_empty() || nodes.iter().any(here),
        })
    }

    fn is_it(&self, task: &Task) -> bool {
        let matches = |pattern: &String| frostline_base::wildcard_matches(pattern, &action(task));
        self.is_here && self.actions.as_ref().is_none_or(|actions| actions.iter().any(matches))
    }
}

/// The number of a task's id.
fn number(state: &State, id: &str) -> Result<u64> {
    let parts = id.rsplit_once(':').filter(|(node, _)| *node == uuid(state));
    let number = parts.and_then(|(_, number)| number.parse().ok());
    match number {
        Some(number) => Ok(number),
        None if id.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u64>().is_ok()) => {
            let node = id.rsplit_once(':').map_or("", |(node, _)| node);
            let reason = format!(
                "task [{id}] belongs to the node [{node}] which isn't part of the cluster and there is no record of the task"
            );
            Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason))
        }
        None => Err(ApiError::invalid(format!("malformed task id {id}"))),
    }
}

fn missing(id: &str) -> ApiError {
    let reason = format!("task [{id}] isn't running and hasn't stored its results");
    ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason)
}

/// What a task does, as Elasticsearch names it.
pub(crate) fn action(task: &Task) -> String {
    match task.api {
        LIST => "cluster:monitor/tasks/lists".to_owned(),
        "indices.clone" => "indices:admin/resize".to_owned(),
        "indices.forcemerge" => "indices:admin/forcemerge".to_owned(),
        "indices.open" => "indices:admin/open".to_owned(),
        "delete_by_query" => "indices:data/write/delete/byquery".to_owned(),
        "update_by_query" => "indices:data/write/update/byquery".to_owned(),
        "reindex" => "indices:data/write/reindex".to_owned(),
        api => format!("indices:data/read/{api}"),
    }
}

/// How long a request waits for a task.
const WAIT: Duration = Duration::from_secs(30);
/// What lists itself among the tasks.
const LIST: &str = "tasks.list";

fn shown(state: &State, task: &Task) -> Value {
    let took = u64::try_from(task.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let headers = task.opaque_id.as_ref().map_or_else(|| json!({}), |id| json!({ "X-Opaque-Id": id }));
    json!({
        "node": uuid(state),
        "id": task.number,
        "type": "transport",
        "action": action(task),
        "description": task.about,
        "start_time_in_millis": task.begun_us / 1_000,
        "running_time": format!("{:?}", Duration::from_millis(took / 1_000_000)),
        "running_time_in_nanos": took,
        "cancellable": state.searches.tasks().iter().any(|search| search.number == task.number),
        "cancelled": false,
        "headers": headers,
    })
}

/// Tasks in the grouping that is asked for.
fn answer<'a>(call: &Call, tasks: impl Iterator<Item = &'a Task>) -> Result<Answer> {
    let id = uuid(&call.state);
    let of_id = tasks.map(|task| (format!("{id}:{}", task.number), shown(&call.state, task)));
    let of_id: Map<String, Value> = of_id.collect();
    Answer::json(&match call.params.get("group_by").unwrap_or("nodes") {
        "none" => json!({ "tasks": of_id.values().collect::<Vec<_>>() }),
        "parents" => json!({ "tasks": of_id }),
        _ if of_id.is_empty() => json!({ "nodes": {} }),
        _ => {
            let mut node = about_node(call);
            node.insert("tasks".to_owned(), Value::Object(of_id));
            json!({ "nodes": { id: node } })
        }
    })
}
