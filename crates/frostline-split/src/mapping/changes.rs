//! Changes of a mapping by its author.
//!
//! - What documents made stays as they made it: no change has a search find other values of theirs.
//! - A change is made from one version of the mapping, and is merged into that alone.

use super::analyses::unchangeable;
use super::elasticsearch::USUAL_FORMAT;
use super::{Field, FieldType, Mapping, Mode, Revision, Rules, ValueType};
use crate::{Error, Result};

/// How an error calls what is not said.
const NOTHING: &str = "null";

impl Mapping {
    /// What is to be merged into this mapping so that it also says what its author now wants: `wanted`, in which what
    /// `says` does not name at the top is as it was. `Invalid` where it contradicts what is known.
    pub fn amended(&self, wanted: Mapping, says: impl Fn(&str) -> bool) -> Result<Mapping> {
        for (path, field) in &wanted.fields {
            self.check_type(path, field)?;
        }
        for (path, mode) in &wanted.rules.objects {
            self.check_enabled(path, *mode)?;
        }
        let source = if says("_source") { wanted.source.clone() } else { self.source.clone() };
        self.source.check_change(&source)?;
        let mode = if says("dynamic") { wanted.mode } else { self.mode };
        let rules = Rules::amended(self, mode, &wanted.rules, says);
        let (time_field, column_budget) = (self.time_field.clone(), self.column_budget);
        let change = Mapping {
            mode,
            rules,
            source,
            time_field,
            column_budget,
            revision: Revision::default(),
            ..wanted
        };
        let mut changed = self.clone();
        changed.merge(&change)?;
        changed.check_aliases_of(&change)?;
        Ok(change)
    }

    /// `Invalid` where an alias is of no field that has values.
    pub fn check_aliases(&self) -> Result<()> {
        self.check_aliases_of(self)
    }

    fn check_aliases_of(&self, change: &Mapping) -> Result<()> {
        for (alias, of) in &change.aliases {
            let why = if alias == of {
                "an alias cannot refer to itself"
            } else if self.aliases.contains_key(of) {
                "an alias cannot refer to another alias"
            } else if self.may_have_values(of) {
                continue;
            } else if self.field(of).is_some() || self.has_children(of) {
                "an alias cannot refer to an object"
            } else {
                "an alias must refer to an existing field: declare that as well"
            };
            let what = format!("Invalid [path] value [{of}] for field alias [{alias}]: {why}");
            return Err(Error::invalid(what));
        }
        Ok(())
    }

    /// Whether a name may be that of values: of a field, one of its other names, or of a key of a flattened one.
    fn may_have_values(&self, name: &str) -> bool {
        let is_field =
            |path: &str| self.is_time(path) || self.field(path).is_some_and(Field::may_have_values);
        let is_flattened =
            |path: &str| self.field(path).and_then(Field::ty).is_some_and(FieldType::is_flattened);
        is_field(name)
            || self.of_other_name(name).is_some_and(|(parent, _)| is_field(parent))
            || name.match_indices('.').any(|(end, _)| is_flattened(&name[..end]))
    }

    /// Whether the field can have the type that is declared now.
    fn check_type(&self, path: &str, wanted: &Field) -> Result<()> {
        let Some(new) = wanted.declared else { return Ok(()) };
        let known = self.field(path);
        let refused = |old: FieldType, because: &str| {
            let (old, new) = (old.name(), new.name());
            let what = format!("mapper [{path}] cannot be changed from type [{old}] to [{new}]{because}");
            Err(Error::invalid(what))
        };
        const FOUND: &str = ": documents have such values; write those to come to another index";
        const SAID: &str = ": its fields are declared";
        match known.and_then(|known| known.declared) {
            Some(old) if old != new => return refused(old, ""),
            Some(_) => return self.check_parameters(path, wanted),
            None => {}
        }
        let is_new = known.is_none_or(|known| known.readings.is_empty());
        if let Some(above) = self.opaque_above(path).filter(|_| is_new) {
            return Err(Error::invalid(format!(
                "can't merge a non object mapping [{above}] with an object mapping: [{path}] would be a field of it"
            )));
        }
        // A merge would read the documents anew, and queries find others.
        let templated = known.and_then(Field::ty);
        if templated == Some(new) && new.value_type().is_none() {
            return Ok(());
        }
        let is_exact = templated.is_some_and(FieldType::is_exact);
        let is_other = |ty: ValueType| {
            new.value_type() != Some(ty) || (ty == ValueType::Text && new.is_exact() != is_exact)
        };
        let readings = known.into_iter().flat_map(|known| known.readings.keys());
        if let Some(other) = { readings }.find(|ty| is_other(**ty)) {
            let of_template = templated.filter(|old| old.value_type() == Some(*other));
            return refused(of_template.unwrap_or(FieldType::of(*other)), FOUND);
        }
        if let Some(old) = templated
            .filter(|old| old.value_type() != new.value_type() || *old != new && old.value_type().is_none())
        {
            return refused(old, FOUND);
        }
        if matches!(new, FieldType::Alias | FieldType::Nested) || new.is_opaque() {
            if self.is_made_below(path) {
                return refused(FieldType::Object, FOUND);
            }
            if self.is_declared_below(path) {
                return refused(FieldType::Object, SAID);
            }
        }
        match known.filter(|known| known.made_by().is_some()) {
            Some(known) => known.check_analyses(wanted, path),
            None => Ok(()),
        }
    }

    /// What `path` is in of which no mapping says more.
    fn opaque_above<'p>(&self, path: &'p str) -> Option<&'p str> {
        let is_opaque =
            |above: &&str| self.field(above).and_then(Field::ty).is_some_and(FieldType::is_opaque);
        path.match_indices('.').map(|(end, _)| &path[..end]).find(is_opaque)
    }

    fn check_parameters(&self, path: &str, wanted: &Field) -> Result<()> {
        let Some(known) = self.field(path) else { return Ok(()) };
        // The lowest is also what nobody gave.
        if known.priority != 0 && known.priority != wanted.priority {
            return Err(Error::invalid(format!(
                "the [priority] of the passthrough object [{path}] cannot be changed"
            )));
        }
        known.check_analyses(wanted, path)?;
        let flags = [
            ("index", !known.unindexed, !wanted.unindexed),
            ("doc_values", !known.without_doc_values, !wanted.without_doc_values),
        ];
        if let Some((name, ours, theirs)) = flags.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            return Err(unchangeable(path, name, &ours.to_string(), &theirs.to_string()));
        }
        let (ours, theirs) = (&known.display, &wanted.display);
        for (name, default, ours, theirs) in [
            ("format", USUAL_FORMAT, &ours.format, &theirs.format),
            ("scaling_factor", NOTHING, &ours.factor, &theirs.factor),
            // The first value that is said is the value.
            (
                "value",
                NOTHING,
                &ours.constant,
                if ours.constant.is_none() { &None } else { &theirs.constant },
            ),
        ] {
            if ours != theirs {
                let (ours, theirs) =
                    (ours.as_deref().unwrap_or(default), theirs.as_deref().unwrap_or(default));
                return Err(unchangeable(path, name, ours, theirs));
            }
        }
        Ok(())
    }

    /// Whether nothing is lost where an object is no longer read.
    fn check_enabled(&self, path: &str, mode: Mode) -> Result<()> {
        let is_known = || self.is_made_below(path) || self.field(path).and_then(Field::made_by).is_some();
        if mode == Mode::Disabled && self.mode_of(path) != Mode::Disabled && is_known() {
            return Err(Error::invalid(format!(
                "the [enabled] parameter can't be updated for the object mapping [{path}]: documents have fields in \
                 it; write those to come to another index"
            )));
        }
        Ok(())
    }

    /// Whether documents have fields below `path`.
    fn is_made_below(&self, path: &str) -> bool {
        self.children(path).filter_map(|below| self.field(below)).any(|field| field.made_by().is_some())
    }

    fn is_declared_below(&self, path: &str) -> bool {
        self.children(path).filter_map(|below| self.field(below)).any(|field| field.declared.is_some())
    }
}

impl Field {
    /// Whether it is more than an object.
    fn may_have_values(&self) -> bool {
        use FieldType::*;
        let is_object = |ty| matches!(ty, Object | Nested | Passthrough | Alias);
        !self.readings.is_empty() || self.ty().is_some_and(|ty| !is_object(ty))
    }
}

#[cfg(test)]
mod tests;
