//! Seeded security events of Windows machines, with the traps of real ones: fields of several types, fields that one
//! document has and fields that appear late, objects that are also values, lists, long tokens, names that differ in
//! case only or are in no Latin script, times that are missing.

use std::ops::Range;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::web_logs::Rng;

const CHANNELS: [&str; 4] =
    ["Security", "Microsoft-Windows-Sysmon/Operational", "security", "Windows PowerShell"];
const MACHINES: [&str; 3] =
    ["MORDORDC.theshire.local", "WORKSTATION5.theshire.local", "wec.internal.example"];
const IMAGES: [&str; 6] = [
    r"C:\Windows\System32\svchost.exe",
    r"C:\Windows\System32\lsass.exe",
    r"C:\windows\system32\LSASS.exe",
    r"C:\Program Files\Agent\agent.exe",
    r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe",
    r"C:\Users\Grüße\Загрузки\東京.exe",
];
const SAID: [&str; 5] = [
    "Registry object added or deleted:\r\nEventType: CreateKey",
    "Process accessed:\r\nRuleName: -",
    "process, accessed by a handle",
    "A handle to an object was requested",
    "mimikatz was created; registry created",
];

/// Generates security events; see the module.
#[derive(Debug)]
pub struct SecurityEvents {
    rng: Rng,
    next: u64,
    documents: u64,
    times_us: Range<i64>,
}

impl SecurityEvents {
    /// So many events, in no order, at these times in microseconds since 1970 UTC.
    pub fn new(seed: u64, documents: u64, times_us: Range<i64>) -> SecurityEvents {
        SecurityEvents { rng: Rng(seed ^ 0x7365_6375_7269_7479), next: 0, documents, times_us }
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.rng.next() % end.max(1)
    }

    fn event(&mut self, number: u64) -> Value {
        let length = self.times_us.end.saturating_sub(self.times_us.start).max(1);
        let moment = self.times_us.start + self.below(length.unsigned_abs()) as i64;
        let time = format!("{:.3}", Timestamp::from_microsecond(moment).unwrap_or(Timestamp::UNIX_EPOCH));
        let image = self.one(&IMAGES);
        let mut event = json!({
            "EventID": self.one(&[1, 3, 7, 10, 12, 13, 4658, 4663, 4688]),
            "Hostname": self.one(&MACHINES),
            "Channel": self.one(&CHANNELS),
        });
        let late = number * 10 > self.documents * 9;
        let fields = [
            ("@timestamp", 0.97, json!(time)),
            ("RecordNumber", 0.9, json!(number * 37 % 800_000)),
            (
                "Task",
                0.8,
                self.one(&[json!(10), json!(12), json!(13), json!("Process Create"), json!("None")]),
            ),
            ("SeverityValue", 0.9, json!(self.one(&[2, 2, 2, 3, 4]))),
            ("Keywords", 0.7, json!(self.one(&[-9_007_199_254_740_993_i64, 9_007_199_254_740_993, 1 << 62]))),
            ("Image", 0.7, json!(image)),
            ("GrantedAccess", 0.2, json!(self.one(&["0x1000", "0x1410", "0x1fffff", "0X1000"]))),
            ("ProcessGuid", 0.5, json!(format!("{{{:08x}-a98b-5f69-8a02-000000000900}}", self.below(2_000)))),
            ("Message", 0.9, json!(format!("{}\r\nUtcTime: {time}\r\nImage: {image}", self.one(&SAID)))),
            (
                "CommandLine",
                0.2,
                json!(format!("powershell.exe -enc {} v1.0#powershell.exe", self.long_token())),
            ),
            ("Hashes", 0.3, json!(format!("SHA256={:064X},MD5={:032X}", self.rng.next(), self.rng.next()))),
            (
                "IpAddress",
                0.2,
                json!(self.one(&["::1", "0:0:0:0:0:0:0:1", "-", "::ffff:172.18.39.5", "LOCAL"])),
            ),
            ("SourceAddress", 0.2, json!(self.one(&["172.18.3.7", "10.0.0.1", "fe80::1"]))),
            (
                "Ports",
                0.3,
                self.one(&[json!(80), json!([80, 443]), json!([80, "any"]), json!([0.5, 1]), json!([])]),
            ),
            (
                "winlog",
                0.1,
                self.one(&[
                    json!({"channel": "System", "event_id": number}),
                    json!({"event_data": {"param1": "x"}}),
                    json!("none"),
                ]),
            ),
            ("host", 0.3, self.one(&[json!("wec"), json!({"name": "wec", "ip": ["10.0.0.1", "::1"]})])),
            ("Ünï cödé", 0.1, self.one(&[json!("ja"), json!("nein"), json!(7)])),
            ("a.b", 0.1, self.one(&[json!("x"), json!(1)])),
            ("a", 0.1, self.one(&[json!({"b": "y"}), json!({"b": 2.5}), json!("z")])),
            ("message", 0.1, json!("names that differ in case only")),
            ("Version", 0.7, if late { json!("two") } else { json!(self.below(5)) }),
            ("Late", if late { 1.0 } else { 0.0 }, json!(self.below(5))),
        ];
        for (name, share, value) in fields {
            if self.rng.unit() < share {
                event[name] = value;
            }
        }
        if number.is_multiple_of(7) {
            let once =
                [json!(number), json!(number.to_string()), json!(true), json!({"deep": {"er": number}})];
            event[format!("Once{number}")] = self.one(&once);
        }
        event
    }

    fn long_token(&mut self) -> String {
        let length = self.one(&[60, 90, 300]);
        let letters = b"ABCDEFGHabcdefgh0123456789+/";
        (0..length).map(|_| char::from(letters[self.below(letters.len() as u64) as usize])).collect()
    }
}

impl Iterator for SecurityEvents {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let number = self.next;
        self.next += 1;
        (number < self.documents).then(|| self.event(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_events_with_all_their_traps() {
        let events = |seed| SecurityEvents::new(seed, 300, 0..1_000_000).collect::<Vec<_>>();
        let all = events(1);
        assert_eq!(all, events(1));
        assert_ne!(all, events(2));
        assert_eq!(all.len(), 300);
        let has = |test: &dyn Fn(&Value) -> bool| assert!(all.iter().any(test));
        has(&|event| event["Task"].is_number());
        has(&|event| event["Task"].is_string());
        has(&|event| event["host"].is_object());
        has(&|event| event["host"].is_string());
        has(&|event| event["CommandLine"].as_str().is_some_and(|text| text.len() > 300));
        has(&|event| event.get("@timestamp").is_none());
        has(&|event| event.get("Message").is_some() && event.get("message").is_some());
        assert!(all[..270].iter().all(|event| event.get("Late").is_none()));
        assert!(all[271..].iter().all(|event| event["Late"].is_u64()));
    }
}
