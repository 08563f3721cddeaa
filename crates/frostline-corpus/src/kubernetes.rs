//! Seeded logs of a Kubernetes cluster: records of a node's agent, which nest labels and annotations deeply, and
//! OpenTelemetry records with their resource. Times have nine digits. The same seed always gives the same bytes.
//!
//! Thirty services run in a few hundred pods on twelve nodes; a pod keeps its names, ids and addresses. What is logged are
//! the lines of Go, Java, PostgreSQL, nginx and klog: logfmt, JSON inside a string, stack traces of several lines.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::web_logs::Rng;

const SERVICES: [&str; 30] = [
    "checkout",
    "cart",
    "catalog",
    "payments",
    "ledger",
    "search",
    "suggest",
    "images",
    "sessions",
    "accounts",
    "mailer",
    "notifier",
    "invoices",
    "shipping",
    "tracking",
    "warehouse",
    "pricing",
    "promotions",
    "reviews",
    "ratings",
    "frontend",
    "gateway",
    "auth",
    "audit",
    "exporter",
    "scheduler",
    "replicator",
    "billing",
    "reports",
    "postgres",
];
const NAMESPACES: [&str; 5] = ["shop", "platform", "data", "staging", "kube-system"];
const LANGUAGES: [&str; 4] = ["go", "java", "nodejs", "cpp"];
const LEVELS: [(&str, u32); 5] = [("DEBUG", 5), ("INFO", 9), ("INFO", 9), ("WARN", 13), ("ERROR", 17)];
const ROUTES: [&str; 8] = [
    "/api/v1/orders/{id}",
    "/api/v1/carts/{id}/items",
    "/api/v2/search",
    "/healthz",
    "/readyz",
    "/metrics",
    "/oauth/token",
    "/api/v1/users/{id}/addresses",
];
const CAUSES: [&str; 6] = [
    "context deadline exceeded",
    "connection refused",
    "EOF",
    "tls: bad certificate",
    "too many connections",
    "no such host",
];
/// Mean distance of two records: about 280 a second.
const STEP_NS: u64 = 3_500_000;

/// Generates the records in the order of their times.
#[derive(Debug)]
pub struct Kubernetes {
    rng: Rng,
    pods: Vec<Pod>,
    left: u64,
    time_ns: i128,
}

/// What every record of a pod has.
#[derive(Debug)]
struct Pod {
    service: &'static str,
    /// The fields of the agent's records.
    kubernetes: Value,
    /// The resource of OpenTelemetry's records.
    resource: Value,
    sequence: u64,
}

impl Kubernetes {
    /// So many records, from the beginning of 2025 on.
    pub fn new(seed: u64, documents: u64) -> Kubernetes {
        let mut rng = Rng(seed ^ 0x6b75_6265_726e_6574);
        let pods = (0..360).map(|number| Pod::new(&mut rng, SERVICES[number % SERVICES.len()])).collect();
        Kubernetes { rng, pods, left: documents, time_ns: 1_735_689_600_000_000_000 }
    }

    /// Writes the next record as a line; `false` if there is none.
    pub fn write_next(&mut self, out: &mut impl Write) -> std::io::Result<bool> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        self.time_ns += i128::from(self.below(2 * STEP_NS) + 1);
        // Some pods say much more than others.
        let at = (self.rng.unit().powi(3) * self.pods.len() as f64) as usize;
        let record = self.record(at);
        serde_json::to_writer(&mut *out, &record)?;
        out.write_all(b"\n")?;
        Ok(true)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.rng.next() % end.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn record(&mut self, at: usize) -> Value {
        let (level, severity) = self.one(&LEVELS);
        let (trace, span) = (self.hex(32), self.hex(16));
        let service = self.pods[at].service;
        let said = self.said(service, level, &trace);
        let observed = time(self.time_ns + i128::from(self.below(40_000_000)));
        let moment = time(self.time_ns);
        let (duration, size) = (self.below(2_000_000_000), self.below(40_000));
        let (route, status) = (self.one(&ROUTES), self.one(&[200, 200, 200, 201, 204, 404, 500, 503]));
        let pod = &mut self.pods[at];
        pod.sequence += 1;
        if at.is_multiple_of(2) {
            let stream = if severity > 9 { "stderr" } else { "stdout" };
            return json!({ "time": moment, "stream": stream, "_p": "F", "log": said, "kubernetes": pod.kubernetes });
        }
        json!({
            "@timestamp": moment,
            "observed_timestamp": observed,
            "data_stream": { "type": "logs", "dataset": format!("{service}.otel"), "namespace": "default" },
            "severity_text": level,
            "severity_number": severity,
            "body": { "text": said },
            "trace_id": trace,
            "span_id": span,
            "attributes": {
                "http.request.method": if status == 201 { "POST" } else { "GET" },
                "http.route": route,
                "http.response.status_code": status,
                "http.response.body.size": size,
                "duration_ns": duration,
                "log.record.sequence": pod.sequence,
            },
            "resource": pod.resource,
            "scope": { "name": format!("github.com/shop/{service}"), "version": "1.14.2" },
        })
    }

    fn hex(&mut self, digits: usize) -> String {
        hex(&mut self.rng, digits)
    }

    fn said(&mut self, service: &str, level: &str, trace: &str) -> String {
        let (id, took) = (self.below(90_000_000), self.below(900_000) as f64 / 1000.0);
        let (cause, route) = (self.one(&CAUSES), self.one(&ROUTES).replace("{id}", &id.to_string()));
        let moment = time(self.time_ns);
        match (self.below(6), level) {
            (_, "ERROR") if self.below(3) == 0 => format!(
                "java.lang.IllegalStateException: order {id} is not open: {cause}\n\tat com.shop.{service}.Handler.handle(Handler.java:{})\n\tat \
                 com.shop.{service}.Router.route(Router.java:118)\n\tat java.base/java.lang.Thread.run(Thread.java:1583)\nCaused by: \
                 java.io.IOException: {cause}\n\t... 2 more",
                40 + id % 60
            ),
            (0, _) => format!(
                "level={} ts={moment} caller=server.go:{} msg=\"served\" route={route} took={took}ms trace={trace}",
                level.to_lowercase(),
                60 + id % 9
            ),
            (1, _) => json!({ "level": level.to_lowercase(), "msg": "request done", "path": route, "ms": took, "user": format!("u-{}", id % 50_000), "trace": trace })
                .to_string(),
            (2, _) => format!(
                "10.{}.{}.{} - - \"GET {route} HTTP/1.1\" 200 {} \"-\" \"kube-probe/1.31\" {took}",
                id % 4,
                id % 250,
                id % 199,
                id % 9_000
            ),
            (3, _) => format!(
                "{}0101 00:00:{:02}.{:06}       1 reflector.go:{}] watch of *v1.ConfigMap ended with: {cause}",
                &level[..1],
                id % 60,
                id % 1_000_000,
                300 + id % 40
            ),
            (4, _) => format!("LOG:  duration: {took} ms  statement: select * from orders where id = {id}"),
            _ => format!("consumed partition={} offset={id} lag={} topic={service}.events.v2", id % 24, id % 300),
        }
    }
}

impl Pod {
    fn new(rng: &mut Rng, service: &'static str) -> Pod {
        let namespace = NAMESPACES[(rng.next() % 5) as usize];
        let (set, end) = (hex(rng, 9), hex(rng, 5));
        let name = format!("{service}-{set}-{end}");
        let uid =
            format!("{}-{}-4{}-9{}-{}", hex(rng, 8), hex(rng, 4), hex(rng, 3), hex(rng, 3), hex(rng, 12));
        let node =
            format!("ip-10-0-{}-{}.eu-central-1.compute.internal", rng.next() % 4, 10 + rng.next() % 3);
        let address = format!("10.244.{}.{}", rng.next() % 12, 2 + rng.next() % 250);
        let version = format!("{}.{}.{}", 1 + rng.next() % 4, rng.next() % 30, rng.next() % 9);
        let image = format!("images.shop.example/{namespace}/{service}:{version}");
        let (container, digest) = (hex(rng, 64), hex(rng, 64));
        let language = LANGUAGES[(rng.next() % 4) as usize];
        let kubernetes = json!({
            "pod_name": name, "namespace_name": namespace, "pod_id": uid, "host": node, "pod_ip": address,
            "labels": {
                "app.kubernetes.io/name": service, "app.kubernetes.io/version": version, "app.kubernetes.io/part-of": "shop",
                "app.kubernetes.io/managed-by": "Helm", "pod-template-hash": set, "topology.kubernetes.io/zone": "eu-central-1b",
            },
            "annotations": {
                "checksum/config": digest, "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
                "kubectl.kubernetes.io/restartedAt": "2024-12-19T08:11:42Z",
            },
            "container_name": service, "docker_id": container, "container_image": image,
            "container_hash": format!("images.shop.example/{namespace}/{service}@sha256:{digest}"),
        });
        let resource = json!({
            "schema_url": "https://opentelemetry.io/schemas/1.27.0",
            "attributes": {
                "service.name": service, "service.version": version, "service.instance.id": uid, "telemetry.sdk.language": language,
                "k8s.namespace.name": namespace, "k8s.pod.name": name, "k8s.pod.uid": uid, "k8s.pod.ip": address, "k8s.node.name": node,
                "k8s.deployment.name": service, "k8s.container.name": service, "container.image.name": image, "container.id": container,
                "cloud": { "provider": "aws", "region": "eu-central-1", "account": { "id": "123456789012" } },
            },
        });
        Pod { service, kubernetes, resource, sequence: rng.next() % 1_000_000 }
    }
}

fn hex(rng: &mut Rng, digits: usize) -> String {
    (0..digits).map(|_| char::from(b"0123456789abcdef"[(rng.next() >> 60) as usize])).collect()
}

fn time(time_ns: i128) -> String {
    format!("{:.9}", Timestamp::from_nanosecond(time_ns).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seed: u64, documents: u64) -> Vec<Value> {
        let (mut generator, mut out) = (Kubernetes::new(seed, documents), Vec::new());
        while generator.write_next(&mut out).unwrap() {}
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_records_with_deep_keys_and_nine_digits() {
        let records = lines(1, 400);
        assert_eq!(records.len(), 400);
        assert_eq!(records, lines(1, 400));
        assert_ne!(records, lines(2, 400));
        let moment = |record: &Value| {
            let time = record.get("time").or_else(|| record.get("@timestamp")).and_then(Value::as_str);
            time.unwrap().to_owned()
        };
        let times: Vec<String> = records.iter().map(moment).collect();
        assert!(
            times.is_sorted()
                && times.iter().all(|time| time.len() == "2025-01-01T00:00:00.123456789Z".len())
        );
        let has = |test: &dyn Fn(&Value) -> bool| assert!(records.iter().any(test));
        has(&|record| record["kubernetes"]["labels"]["app.kubernetes.io/name"].is_string());
        has(&|record| record["resource"]["attributes"]["cloud"]["account"]["id"].is_string());
        has(&|record| record["log"].as_str().is_some_and(|log| log.contains("\n\tat ")));
    }
}
