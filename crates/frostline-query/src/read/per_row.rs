//! Several values for each of some rows.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, ListBuilder};
use roaring::RoaringBitmap;

use crate::Result;
use crate::json::Json;
use crate::read::objects::parsed;
use crate::read::view::View;

/// The values of some rows, in their order.
#[derive(Debug, PartialEq)]
pub(crate) struct PerRow<T> {
    values: Vec<T>,
    /// Where those of each row end.
    ends: Vec<usize>,
}

impl<T> Default for PerRow<T> {
    fn default() -> Self {
        PerRow { values: Vec::new(), ends: Vec::new() }
    }
}

impl<T: Clone> PerRow<T> {
    /// Those of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[T]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.values.get(start..*end).unwrap_or_default())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
        self.ends.push(self.values.len());
    }

    /// Whether no row has several.
    pub(crate) fn are_single(&self) -> bool {
        self.rows().all(|values| values.len() <= 1)
    }

    /// What is made of them: a list for each row, null where it has no value.
    pub(crate) fn lists<B: ArrayBuilder>(&self, builder: B, add: impl Fn(&mut B, &T)) -> ArrayRef {
        let mut lists = ListBuilder::new(builder);
        for row in self.rows() {
            let before = lists.values().len();
            row.iter().for_each(|value| add(lists.values(), value));
            let any = lists.values().len() > before;
            lists.append(any);
        }
        Arc::new(lists.finish())
    }

    /// Those that `add` finds in what the documents of these rows have at some paths.
    pub(crate) async fn from_documents(
        view: View<'_>,
        paths: &[&str],
        rows: &RoaringBitmap,
        add: impl Fn(&Json, &mut Vec<T>) + Send + Sync,
    ) -> Result<PerRow<T>> {
        let mut all = PerRow::default();
        let mut left = rows.iter().peekable();
        while left.peek().is_some() {
            let part: RoaringBitmap = left.by_ref().take(view.documents_at_once()).collect();
            for document in view.documents(&part).await? {
                let document = parsed(&document)?;
                let mut found = Vec::new();
                for path in paths {
                    each_at(&document, path, &mut |value| add(value, &mut found));
                }
                all.push(&found);
            }
        }
        Ok(all)
    }
}

/// Hands out the values at a path, lists whole.
pub(crate) fn each_at(json: &Json, path: &str, take: &mut impl FnMut(&Json)) {
    match json {
        Json::Object(members) => {
            for (name, inner) in members {
                if name == path {
                    take(inner);
                } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|r| r.strip_prefix('.'))
                {
                    each_at(inner, rest, take);
                } else if name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')) {
                    // A name with dots is an object in an object.
                    take(&Json::Object(vec![(name[path.len() + 1..].to_owned(), inner.clone())]));
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| each_at(item, path, take)),
        Json::Scalar(_) => {}
    }
}
