//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

/// A page of samples, family by family.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Whole(i128),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Whole(value.into())
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Value::Whole(value) => write!(f, "{value}"),
            Value::Real(f64::INFINITY) => f.write_str("+Inf"),
            Value::Real(f64::NEG_INFINITY) => f.write_str("-Inf"),
            Value::Real(value) => write!(f, "{value}"),
        }
    }
}

impl Page {
    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// A sample of the family that was begun.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        let mut all = String::new();
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let comma = if all.is_empty() { "" } else { "," };
            // Writing into memory does not fail.
            let _ = write!(all, "{comma}{label}=\"{value}\"");
        }
        let value = value.into();
        match all.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{all}}} {value}")),
        }
    }

    /// A family of one sample.
    pub(super) fn one(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Into<Value>,
    ) {
        self.family(kind, name, help);
        self.sample(name, labels, value);
    }

    /// The samples of a histogram: `counts` are those up to each end but above the one before, and the rest.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        ends: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let (bucket, mut all) = (format!("{name}_bucket"), 0);
        for (end, count) in ends.iter().copied().chain([f64::INFINITY]).zip(counts) {
            all += count;
            let end = Value::Real(end).to_string();
            self.sample(&bucket, &[labels, &[("le", &end)]].concat(), all);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, all);
    }

    pub(super) fn text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.one(Kind::Gauge, "a", "one\nline \\", &[("x", "q\"\\\n"), ("y", "é")], -3);
        page.family(Kind::Histogram, "t", "time");
        page.histogram("t", &[("api", "s")], &[0.005, 1.0], &[2, 0, 1], 0.25);
        page.one(Kind::Counter, "b", "", &[], 1e-7);
        let expected = r#"# HELP a one\nline \\
# TYPE a gauge
a{x="q\"\\\n",y="é"} -3
# HELP t time
# TYPE t histogram
t_bucket{api="s",le="0.005"} 2
t_bucket{api="s",le="1"} 2
t_bucket{api="s",le="+Inf"} 3
t_sum{api="s"} 0.25
t_count{api="s"} 3
# HELP b 
# TYPE b counter
b 0.0000001
"#;
        assert_eq!(page.text(), expected);
    }
}
