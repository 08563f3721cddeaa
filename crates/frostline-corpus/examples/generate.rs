//! Writes a corpus as JSON lines to standard output: `generate web|kubernetes DOCUMENTS`, or `generate git CLONE`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use frostline_corpus::{Generator, GeneratorOptions, GitLog, Kubernetes};

const USAGE: &str = "generate web|kubernetes DOCUMENTS, or generate git CLONE";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, of] = arguments.as_slice() else { return Err(USAGE.into()) };
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    match corpus.as_str() {
        "web" => {
            let options = GeneratorOptions { documents: of.parse()?, ..GeneratorOptions::default() };
            io::copy(&mut Generator::new(options), &mut out)?;
        }
        "kubernetes" => {
            let mut records = Kubernetes::new(1, of.parse()?);
            while records.write_next(&mut out)? {}
        }
        "git" => {
            io::copy(&mut GitLog::open(Path::new(of))?, &mut out)?;
        }
        _ => return Err(USAGE.into()),
    }
    out.flush()?;
    Ok(())
}
