use super::*;

/// A QEMU that answers what it is told to, after reading a line for each answer but the greeting.
fn with(answers: &'static [&'static str]) -> (Result<Control>, std::thread::JoinHandle<Vec<Value>>) {
    let (near, far) = UnixStream::pair().unwrap();
    let qemu = std::thread::spawn(move || {
        let mut far = BufReader::new(far);
        let mut asked = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            if at > 0 {
                let mut line = String::new();
                far.read_line(&mut line).unwrap();
                asked.push(serde_json::from_str(&line).unwrap());
            }
            far.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (Control::new(near), qemu)
}

#[test]
fn commands_are_answered_past_events_and_refusals_are_said() {
    let (control, qemu) = with(&[
        "{\"QMP\": {\"version\": {}}}\n",
        "{\"return\": {}}\n",
        "{\"event\": \"RESUME\"}\n{\"return\": {\"status\": \"running\"}}\n",
        "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such object\"}}\n",
    ]);
    let mut control = control.unwrap();
    assert_eq!(control.execute("query-status", json!({})).unwrap()["status"], "running");
    let error = control.execute("qom-set", json!({"path": "/objects/x"})).unwrap_err();
    assert!(error.what().contains("no such object"), "{error}");
    let asked = qemu.join().unwrap();
    assert_eq!(asked[0]["execute"], "qmp_capabilities");
    assert_eq!(asked[2]["arguments"]["path"], "/objects/x");
    let gone = control.execute("query-status", json!({})).unwrap_err();
    assert_eq!(gone.kind(), frostline_base::ErrorKind::Unavailable);
}

#[test]
fn something_else_on_the_socket_is_no_qemu() {
    let (control, qemu) = with(&["{\"hello\": 1}\n"]);
    assert_eq!(control.unwrap_err().kind(), frostline_base::ErrorKind::Corrupt);
    qemu.join().unwrap();
}
