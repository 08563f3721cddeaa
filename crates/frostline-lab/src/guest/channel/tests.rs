use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What the agent prints for an answer.
fn encode(answer: &Answer) -> Vec<u8> {
    let Answer { id, status, stdout, stderr } = answer;
    let mut bytes = format!("DONE {id} {status} {} {}\n", stdout.len(), stderr.len()).into_bytes();
    bytes.extend_from_slice(stdout);
    bytes.extend_from_slice(stderr);
    bytes
}

fn decode(decoder: &mut Decoder, bytes: &[u8], piece: usize) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        while let Some(message) = decoder.message()? {
            messages.push(message);
        }
    }
    Ok(messages)
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let bytes = || vec(any::<u8>(), 0..200);
    let answer = (any::<u64>(), 0..256i32, bytes(), bytes())
        .prop_map(|(id, status, stdout, stderr)| Answer { id, status, stdout, stderr });
    vec(answer, 0..5)
}

proptest! {
    #[test]
    fn answers_survive_any_cut(answers in answers(), piece in 1..64usize) {
        let mut bytes = b"READY 1\n".to_vec();
        answers.iter().for_each(|answer| bytes.extend(encode(answer)));
        let messages = decode(&mut Decoder::default(), &bytes, piece).unwrap();
        let expected: Vec<Message> =
            std::iter::once(Message::Ready(1)).chain(answers.into_iter().map(Message::Done)).collect();
        prop_assert_eq!(messages, expected);
    }

    #[test]
    fn foreign_bytes_are_an_error_and_never_a_panic(bytes in vec(any::<u8>(), 0..400), piece in 1..64usize) {
        // No message of the agent begins with a byte of these.
        let is_foreign = bytes.first().is_some_and(|first| !b"RD".contains(first)) && bytes.len() > 200;
        let result = decode(&mut Decoder::default(), &bytes, piece);
        prop_assert!(!is_foreign || result.is_err());
    }

    #[test]
    fn headers_of_other_shapes_are_refused(words in vec("[-0-9a-z]{1,12}", 0..8)) {
        let whole = words.len() == 4 && words.iter().all(|word| word.parse::<u32>().is_ok());
        let mut decoder = Decoder::default();
        decoder.push(format!("DONE {}\n", words.join(" ")).as_bytes());
        prop_assert!(whole || decoder.message().is_err());
    }
}

#[test]
fn too_much_output_is_refused_before_it_is_read() {
    let mut decoder = Decoder::default();
    decoder.push(b"DONE 1 0 99999999999 0\n");
    assert_eq!(decoder.message().unwrap_err().kind(), frostline_base::ErrorKind::Exhausted);
}

/// The loop of the real agent, from its file, over pipes: what it reads and prints is what is decoded here.
#[test]
fn the_agent_itself_speaks_it() {
    let init = include_str!("../init.sh");
    let (_, from) = init.split_once("cd /run/frostline || off").expect("the agent's loop");
    let folder = tempfile::tempdir().unwrap();
    let text = from
        .replace("/run/frostline", &folder.path().display().to_string())
        .replace("/root", &folder.path().display().to_string());
    let script = format!("off() {{ exit 7; }}\nexec 3<&0 4</dev/null\n{}", text.replace(">&3", ">&1"));
    let mut agent = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let scripts: [&[u8]; 4] =
        [b"printf 'a\\0\\377b'; echo no >&2; exit 3", b"", b"cat; echo no newline at the end", b"sleep 100"];
    let mut stdin = agent.stdin.take().unwrap();
    stdin.write_all(b"NOISE\n").unwrap();
    for (id, script) in scripts.iter().enumerate() {
        // The last one runs out of time.
        stdin.write_all(&request(id as u64, if id == 3 { 1 } else { 60 }, script)).unwrap();
    }
    drop(stdin);
    let output = agent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the end of the line turns the machine off");
    let messages = decode(&mut Decoder::default(), &output.stdout, 7).unwrap();
    let done = |id, status, stdout: &[u8], stderr: &[u8]| {
        Message::Done(Answer { id, status, stdout: stdout.to_vec(), stderr: stderr.to_vec() })
    };
    let expected = [
        Message::Ready(VERSION),
        done(0, 3, b"a\0\xffb", b"no\n"),
        done(1, 0, b"", b""),
        done(2, 0, b"no newline at the end\n", b""),
        done(3, 124, b"", b""),
    ];
    assert_eq!(messages, expected);
}
