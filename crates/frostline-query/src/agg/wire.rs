//! Serialization of types that have none of their own.

/// A value as JSON text: it holds what no other form can, whatever its type.
pub(super) mod json {
    use serde::de::DeserializeOwned;

    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::json::Json;

    pub(crate) fn serialize<S: Serializer, T: Serialize>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(value).map_err(S::Error::custom)?.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: DeserializeOwned>(
        from: D,
    ) -> Result<T, D::Error> {
        let json: Json = serde_json::from_str(&String::deserialize(from)?).map_err(D::Error::custom)?;
        T::deserialize(json.to_value()).map_err(D::Error::custom)
    }
}

/// A pattern as its text.
pub(super) mod pattern {
    use regex::Regex;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(pattern: &Regex, to: S) -> Result<S::Ok, S::Error> {
        pattern.as_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
        Regex::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A time zone as its name or its offset.
pub(super) mod zone {
    use jiff::tz::TimeZone;

    use crate::language::date::parse_time_zone;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(zone: &TimeZone, to: S) -> Result<S::Ok, S::Error> {
        let text = match (zone.iana_name(), zone.to_fixed_offset()) {
            (Some(name), _) => name.to_owned(),
            (None, Ok(offset)) => {
                let (sign, seconds) =
                    (if offset.is_negative() { '-' } else { '+' }, offset.seconds().unsigned_abs());
                format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
            }
            (None, Err(error)) => return Err(S::Error::custom(error)),
        };
        text.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TimeZone, D::Error> {
        parse_time_zone(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
