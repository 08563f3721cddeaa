//! Doors for fuzzers. Any bytes must give a value or an error.

use std::sync::{Arc, LazyLock};

use datafusion::execution::TaskContext;
use frostline_store::{OpenOptions, Repository};

use crate::Result;
use crate::exec::codec;
use crate::exec::scan::Local;
use crate::exec::session::session;
use crate::filter::Filter;
use crate::filter::pattern::{Matcher, TokenPattern};
use crate::read::open::{Searcher, Settings};

/// Compiles every pattern of a filter, as a search does.
pub fn compile(filter: &Filter) {
    match filter {
        Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().for_each(compile),
        Filter::Not(part) => compile(part),
        Filter::Nested(nested) => compile(&nested.filter),
        Filter::Pattern { pattern, case_insensitive, .. } => {
            let whole = Matcher::new(pattern, *case_insensitive);
            let _ = whole.is_ok_and(|matcher| matcher.is_match("GET /a 10.0.0.7 not found"));
            let _ = TokenPattern::new(pattern, *case_insensitive);
        }
        _ => {}
    }
}

/// A plan that another process sent, and one of our nodes in a plan. What was read and is written again is read as
/// the same.
pub fn plan(bytes: &[u8]) {
    static CONTEXT: LazyLock<Result<Arc<TaskContext>>> = LazyLock::new(|| {
        let repository = Repository::open("memory:", &OpenOptions::default())?;
        let searcher = Searcher::new(&repository, Arc::new(repository.clone()), Settings::default());
        Ok(session(Local::new(&searcher, None))?.task_ctx())
    });
    let Ok(context) = CONTEXT.as_ref() else { return };
    let plan = codec::read(bytes, context);
    for plan in plan.into_iter().chain(codec::read_node(bytes)) {
        let Ok(written) = codec::write(&plan) else { continue };
        let again = codec::read(&written, context).and_then(|again| codec::write(&again));
        assert!(again.is_ok_and(|again| again == written), "{plan:?}");
    }
}
