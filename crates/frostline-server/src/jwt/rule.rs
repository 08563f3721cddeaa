//! What users with some claim may do.

use frostline_base::{Error, Result};
use serde_json::{Map, Value};

use crate::api::security::role;
use crate::scope::{Grant, Privilege};

/// What users with some claim may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// A claim, or members of objects that lead to it, with dots.
    claim: String,
    value: String,
    role: String,
    /// None for everything.
    grant: Option<Grant>,
}

impl Rule {
    /// Reads `CLAIM=VALUE: ROLE` or `CLAIM=VALUE: PRIVILEGES on INDICES`.
    pub(super) fn parse(text: &str) -> Result<Rule> {
        let wrong = |what: &str| {
            Error::invalid(format!(
                "--jwt-role [{text}] {what}: write [groups=admins: superuser] or [groups=sre: read write on logs-* web]"
            ))
        };
        let (claim, rest) = text.split_once('=').ok_or_else(|| wrong("has no claim and value"))?;
        let (value, allowed) = rest.rsplit_once(": ").ok_or_else(|| wrong("does not say what is allowed"))?;
        let (claim, value) = (claim.trim(), value.trim());
        if claim.is_empty() || value.is_empty() {
            return Err(wrong("has an empty claim or value"));
        }
        let words: Vec<&str> = allowed.split_whitespace().collect();
        let (role, grant) = match words.iter().position(|word| *word == "on") {
            None => {
                let [name] = words[..] else { return Err(wrong("names no single role")) };
                (name.to_owned(), self::role(name).map_err(|e| wrong(&format!("is wrong: {}", e.reason)))?)
            }
            Some(on) => {
                let (privileges, names) = (&words[..on], &words[on + 1..]);
                if privileges.is_empty() || names.is_empty() {
                    return Err(wrong("lacks privileges or indices"));
                }
                let of = privileges.iter().map(|name| Privilege::of(name));
                let of: crate::error::Result<Vec<_>> = of.collect();
                let mut privileges = of.map_err(|e| wrong(&format!("is wrong: {}", e.reason)))?.concat();
                let mut seen = Vec::new();
                privileges.retain(|privilege| {
                    let is_new = !seen.contains(privilege);
                    seen.push(*privilege);
                    is_new
                });
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                (format!("{claim}={value}"), Some(Grant { names, privileges, fields: None }))
            }
        };
        Ok(Rule { claim: claim.to_owned(), value: value.to_owned(), role, grant })
    }

    /// What the role is called.
    pub(super) fn role(&self) -> &str {
        &self.role
    }

    /// What it allows; none for everything.
    pub(super) fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// Whether the claim has the value, or it is one of its values.
    pub(super) fn applies(&self, claims: &Map<String, Value>) -> bool {
        let is_value = |value: &Value| value.as_str() == Some(&self.value);
        match claim(claims, &self.claim) {
            Some(Value::Array(all)) => all.iter().any(is_value),
            // Scopes are words of one text.
            Some(Value::String(text)) if matches!(self.claim.as_str(), "scope" | "scp") => {
                text.split(' ').any(|word| word == self.value)
            }
            Some(one) => is_value(one),
            None => false,
        }
    }
}

/// The claim of this name, which may have dots itself.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut path = name.split('.');
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |value, member| value.get(member))
    })
}
