//! Answers as YAML, for people who read nested answers more easily that way.

use frostline_query::Json;

/// A JSON text as a YAML document of the same values; none where it is no JSON. Texts stay quoted as JSON quotes them, which YAML
/// reads the same.
pub(crate) fn of_json(json: &[u8]) -> Option<String> {
    let mut yaml = "---".to_owned();
    write(&serde_json::from_slice(json).ok()?, 0, &mut yaml);
    yaml.push('\n');
    Some(yaml)
}

/// Writes a value after what introduces it: a scalar on the same line, others on lines of their own.
fn write(value: &Json, depth: usize, yaml: &mut String) {
    match value {
        Json::Object(members) if members.is_empty() => yaml.push_str(" {}"),
        Json::Array(items) if items.is_empty() => yaml.push_str(" []"),
        Json::Scalar(scalar) => {
            yaml.push(' ');
            yaml.push_str(scalar.get());
        }
        Json::Object(members) => {
            for (name, value) in members {
                line(depth, yaml);
                yaml.push_str(&key(name));
                yaml.push(':');
                write(value, depth + 1, yaml);
            }
        }
        Json::Array(items) => {
            for item in items {
                line(depth, yaml);
                yaml.push('-');
                write(item, depth + 1, yaml);
            }
        }
    }
}

fn line(depth: usize, yaml: &mut String) {
    yaml.push('\n');
    yaml.extend(std::iter::repeat_n("  ", depth));
}

/// A name that YAML may read as anything but itself is quoted.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&name.to_ascii_lowercase().as_str());
    if is_plain { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_has_the_values_of_the_json() {
        let json = r#"{"a.b":1.10,"no":"x: \"y\"\n","list":[{"n":null,"empty":{}},[1,[]],true],"é":""}"#;
        let expected = "---\na.b: 1.10\n\"no\": \"x: \\\"y\\\"\\n\"\nlist:\n  -\n    \"n\": null\n    empty: {}\n  -\n    - 1\n    - []\n  - true\n\"é\": \"\"\n";
        assert_eq!(of_json(json.as_bytes()).unwrap(), expected);
        assert_eq!(of_json(b"[]").unwrap(), "--- []\n");
        assert_eq!(of_json(b"{"), None);
    }
}
