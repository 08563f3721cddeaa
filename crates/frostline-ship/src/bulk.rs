//! Elasticsearch's `_bulk`.

use frostline_base::{Error, Result};
use frostline_ingest::Delivery;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Reply, Request};
use crate::sender::{Answer, Verdict};

/// The documents as `create`, each with its `_id`: one that a data stream has already is not stored again.
pub(crate) fn request(index: &str, documents: &[(&Delivery, String)]) -> Request {
    let bytes: usize = documents.iter().map(|(document, _)| document.bytes.len() + 80).sum();
    let mut body = Vec::with_capacity(bytes);
    for (document, id) in documents {
        body.extend_from_slice(json!({ "create": { "_id": id } }).to_string().as_bytes());
        body.push(b'\n');
        // A document may have line ends between its tokens only.
        body.extend(document.bytes.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
        body.push(b'\n');
    }
    let path =
        format!("/{index}/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason");
    Request { path, content_type: "application/x-ndjson", header: None, body }
}

#[derive(Deserialize)]
struct Answered {
    errors: bool,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    create: Created,
}

#[derive(Deserialize)]
struct Created {
    status: u16,
    #[serde(default)]
    error: Value,
}

/// What became of each of `count` documents.
pub(crate) fn judge(reply: &Reply, count: usize) -> Result<Answer> {
    let answered: Answered = serde_json::from_slice(&reply.body).map_err(|error| {
        Error::invalid("the server's answer is not one of _bulk: is it Elasticsearch's API?")
            .with_source(error)
    })?;
    if answered.items.len() != count {
        return Err(Error::invalid(format!(
            "the server answers for {} documents, and {count} were sent",
            answered.items.len()
        )));
    }
    let verdict = |item: Item| {
        let Created { status, error } = item.create;
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let reason = || format!("{}: {}", text("type"), text("reason"));
        match status {
            200..=299 => Ok(Verdict::Taken),
            409 => Ok(Verdict::There),
            429 | 500.. => Ok(Verdict::Again(reason())),
            // Until it is opened again.
            400 if text("type") == "index_closed_exception" => Ok(Verdict::Again(reason())),
            400 | 413 => Ok(Verdict::Refused(reason())),
            _ => Err(Error::invalid(format!(
                "the server refuses documents with status {status}: {}",
                reason()
            ))),
        }
    };
    if !answered.errors {
        return Ok(Answer::Each((0..count).map(|_| Verdict::Taken).collect()));
    }
    Ok(Answer::Each(answered.items.into_iter().map(verdict).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_judged_by_its_status() {
        let reply = |body: &str| Reply { status: 200, body: body.as_bytes().to_vec(), ..Reply::default() };
        let item =
            |status: u16| json!({ "create": { "status": status, "error": { "type": "t", "reason": "r" } } });
        let all = json!({ "errors": true, "items": [item(201), item(409), item(429), item(503), item(400)] });
        let Ok(Answer::Each(verdicts)) = judge(&reply(&all.to_string()), 5) else { panic!("no verdicts") };
        let again = || Verdict::Again("t: r".into());
        let refused = Verdict::Refused("t: r".into());
        assert_eq!(verdicts, [Verdict::Taken, Verdict::There, again(), again(), refused]);
        for (body, why) in [
            ("{}", "not one of _bulk"),
            (r#"{"errors":false,"items":[]}"#, "answers for 0 documents, and 1 were sent"),
            (r#"{"errors":true,"items":[{"create":{"status":403}}]}"#, "refuses documents with status 403"),
        ] {
            assert!(judge(&reply(body), 1).err().unwrap().what().contains(why), "{body}");
        }
    }
}
