//! The command line of `doctor`, which the binary nests.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use frostline_base::{Error, ErrorKind, Result};
use frostline_show::{OutputFile, note};

use crate::host::{Host, Role, Said};
use crate::report::{self, Format, Report};
use crate::rule::{Rule, Severity};
use crate::tree::{Absent, Tree, Why};
use crate::{capture, examine, fix, live, rules};

/// Find what slows this host down or endangers its data, and how to fix it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Doctor {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    examine: Examine,
}

impl Doctor {
    /// Whether one of its commands is named, and not the host to be examined.
    pub fn has_command(&self) -> bool {
        self.command.is_some()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy the files that the rules read to a new folder, without names that identify the host, to examine elsewhere.
    Capture {
        /// The folder to create.
        #[arg(value_name = "OUT")]
        out: PathBuf,
        /// Root of the host's files.
        #[arg(long, default_value = "/", value_name = "DIR")]
        root: PathBuf,
        /// Milliseconds between the two samples of counters.
        #[arg(long, default_value_t = 1000, value_name = "MS")]
        interval: u64,
    },
    /// Explain a rule: what it reads, when it fires, what to do.
    Explain {
        /// An id or name, such as N02 or single-queue-nic.
        rule: String,
    },
    /// List the rules.
    Rules {
        /// Print them as the section of a Markdown page.
        #[arg(long)]
        markdown: bool,
    },
    /// Print the fixes as a script with its undo; with --apply, run those of the named rules.
    Fix {
        /// Rules to fix [default: all that fired].
        rules: Vec<String>,
        /// Only print; this is the default without --apply.
        #[arg(long, conflicts_with = "apply")]
        dry_run: bool,
        /// Run the fixes of this rule; may be repeated.
        #[arg(long, value_name = "RULE", conflicts_with = "rules")]
        apply: Vec<String>,
        /// New file for the script of --apply, which is written before it runs; `sh FILE undo` reverts it.
        #[arg(long, default_value = "doctor-undo.sh", value_name = "FILE")]
        undo: PathBuf,
        #[command(flatten)]
        from: From,
    },
    /// Examine a virtual machine definition: libvirt XML, or the JSON of an OpenStack flavor or image.
    Vm {
        /// File of the definition.
        file: PathBuf,
        #[command(flatten)]
        show: Show,
    },
}

#[derive(Debug, Args)]
struct Examine {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    show: Show,
    /// Capture of the host that runs this machine, to say what on the host explains what is found here.
    #[arg(long, value_name = "DIR")]
    hypervisor: Option<PathBuf>,
    /// Name of this machine on that host, if it has several.
    #[arg(long, value_name = "NAME", requires = "hypervisor")]
    machine: Option<String>,
    /// Examine repeatedly until Ctrl-C, and print findings that appear or disappear. The files of --html and
    /// --prometheus are replaced after each examination.
    #[arg(long, conflicts_with = "fail_on")]
    watch: bool,
    /// Stop watching after this many examinations.
    #[arg(long, hide = true, requires = "watch")]
    passes: Option<u64>,
    /// Also write the findings as metrics, for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct From {
    /// Root of the host's files: / for this host, or the folder of a capture or copy.
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// What a directory is used for: log, cache or database; may be repeated.
    #[arg(long, value_name = "PATH=ROLE", value_parser = role)]
    role: Vec<(String, Role)>,
    /// Class of a cloud volume, which cannot be read from inside; may be repeated.
    #[arg(long, value_name = "DEV=CLASS", value_parser = volume)]
    volume: Vec<(String, String)>,
    /// Milliseconds between the two samples of counters.
    #[arg(long, default_value_t = 200, value_name = "MS")]
    interval: u64,
}

#[derive(Debug, Args)]
struct Show {
    /// Format of the report.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Also write the report as a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Fail (status 1) if there is a finding of this severity or higher.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
}

/// `PATH=ROLE`.
fn role(text: &str) -> std::result::Result<(String, Role), String> {
    let (path, role) = text.rsplit_once('=').ok_or("want PATH=log, PATH=cache or PATH=database")?;
    let role = <Role as clap::ValueEnum>::from_str(role, true)
        .map_err(|_| format!("{role} is not a role: use log, cache or database"))?;
    let path = path.trim_end_matches('/');
    Ok((if path.is_empty() { "/".to_owned() } else { path.to_owned() }, role))
}

/// `DEV=CLASS`.
fn volume(text: &str) -> std::result::Result<(String, String), String> {
    const CLASSES: [&str; 7] = ["gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"];
    let (device, class) = text.rsplit_once('=').ok_or("want DEV=CLASS, such as nvme1n1=st1")?;
    if !CLASSES.contains(&class) {
        return Err(format!("there is no class {class}: want one of {}", CLASSES.join(", ")));
    }
    Ok((device.trim_start_matches("/dev/").to_owned(), class.to_owned()))
}

impl From {
    fn host(&self) -> Result<Host> {
        let said = Said { roles: self.role.clone(), volumes: self.volume.clone() };
        capture::open(&self.root, Duration::from_millis(self.interval), said)
    }
}

impl Show {
    /// The file of the page, checked before the host is examined.
    fn page(&self) -> Result<Option<OutputFile>> {
        self.html.as_deref().map(output_file).transpose()
    }

    fn format(&self, json: bool) -> Format {
        self.format.unwrap_or(if json { Format::Json } else { Format::Text })
    }

    fn print(
        &self,
        report: &Report,
        page: Option<&OutputFile>,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<u8> {
        print(out, &report.render(self.format(json)))?;
        write_page(page, report)?;
        let fails = self.fail_on.is_some_and(|least| report.worst().is_some_and(|worst| worst >= least));
        Ok(u8::from(fails))
    }
}

/// Runs the command; `json` asks for one JSON document. The exit status: 0 done, 1 something was found that
/// `--fail-on` names.
///
/// # Errors
/// NotFound and Invalid for what the user named, Conflict for a file or folder that is already there.
pub fn run(doctor: &Doctor, json: bool, out: &mut dyn Write) -> Result<u8> {
    match &doctor.command {
        None => doctor.examine.run(json, out),
        Some(Command::Capture { out: folder, root, interval }) => {
            let files = capture::capture(root, folder, Duration::from_millis(*interval))?;
            let what = serde_json::json!({"folder": folder, "files": files});
            let text =
                if json { format!("{what}\n") } else { format!("{files} files in {}\n", folder.display()) };
            print(out, &text).map(|()| 0)
        }
        Some(Command::Explain { rule }) => {
            let found = rules::find(rule)
                .ok_or_else(|| Error::not_found(format!("there is no rule {rule}: see doctor rules")))?;
            let text = if json { format!("{:#}\n", of_rule(found)) } else { report::explain(found) };
            print(out, &text).map(|()| 0)
        }
        Some(Command::Rules { markdown }) => print(out, &list(*markdown, json)).map(|()| 0),
        Some(Command::Fix { rules, dry_run: _, apply, undo, from }) => {
            run_fix(rules, apply, undo, from, json, out)
        }
        Some(Command::Vm { file, show }) => {
            let page = show.page()?;
            show.print(&machine(file)?, page.as_ref(), json, out)
        }
    }
}

fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Error::unavailable("cannot print").with_source(e))
}

fn list(markdown: bool, json: bool) -> String {
    if markdown {
        return report::markdown();
    }
    if json {
        let rules: Vec<_> = rules::all().map(of_rule).collect();
        return format!("{:#}\n", serde_json::json!({ "rules": rules }));
    }
    rules::all().map(|rule| format!("{} {:<34} {}\n", rule.id, rule.name, rule.title)).collect()
}

fn of_rule(rule: &Rule) -> serde_json::Value {
    serde_json::json!({
        "id": rule.id, "name": rule.name, "title": rule.title, "severity": rule.severity,
        "confidence": rule.confidence, "threshold": rule.threshold, "explanation": rule.explanation,
    })
}

impl Examine {
    fn run(&self, json: bool, out: &mut dyn Write) -> Result<u8> {
        let (metrics, page) = (self.metrics()?, self.show.page()?);
        if self.watch {
            return self.watch(metrics.as_ref(), page.as_ref(), json, out);
        }
        let report = self.report()?;
        export(metrics.as_ref(), &report)?;
        self.show.print(&report, page.as_ref(), json, out)
    }

    fn report(&self) -> Result<Report> {
        let report = examine(&self.from.host()?);
        let Some(folder) = &self.hypervisor else { return Ok(report) };
        if folder == Path::new("/") {
            return Err(Error::invalid(
                "--hypervisor wants the folder of a capture that was made on the host",
            ));
        }
        let host = capture::open(folder, Duration::ZERO, Said::default())?;
        report.with_host(&host, self.machine.as_deref())
    }

    /// Prints new and resolved findings, one per line, until it is stopped.
    fn watch(
        &self,
        metrics: Option<&OutputFile>,
        page: Option<&OutputFile>,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<u8> {
        let json = match self.show.format(json) {
            Format::Json => true,
            Format::Text => false,
            Format::Html | Format::Sarif => {
                return Err(Error::invalid("--watch prints text or json: use --format sarif without it"));
            }
        };
        let mut known: Vec<String> = Vec::new();
        let mut pass = 0;
        loop {
            let report = self.report()?;
            export(metrics, &report)?;
            write_page(page, &report)?;
            let key = |finding: &report::Finding| {
                let severity = finding.severity.word();
                format!("{severity} {} {}: {}", finding.rule, finding.object, finding.title)
            };
            let now: Vec<String> = report.findings.iter().map(key).collect();
            let came = now.iter().filter(|line| !known.contains(line)).map(|line| ("+", line));
            let went = known.iter().filter(|line| !now.contains(line)).map(|line| ("-", line));
            let lines = came.chain(went).map(|(sign, line)| match json {
                true => format!(
                    "{}\n",
                    serde_json::json!({"change": if sign == "+" { "new" } else { "gone" }, "finding": line})
                ),
                false => format!("{sign} {line}\n"),
            });
            print(out, &lines.collect::<String>())?;
            known = now;
            pass += 1;
            if self.passes.is_some_and(|passes| pass >= passes) {
                return Ok(0);
            }
        }
    }

    /// The file of the metrics, checked before the host is examined.
    fn metrics(&self) -> Result<Option<OutputFile>> {
        self.prometheus.as_deref().map(output_file).transpose()
    }
}

/// Writes the metrics. The file is replaced atomically, because a collector may read it at any time.
fn export(metrics: Option<&OutputFile>, report: &Report) -> Result<()> {
    metrics.map_or(Ok(()), |file| write_output(file, &report.prometheus()))
}

/// Writes the page, which replaces the one before.
fn write_page(page: Option<&OutputFile>, report: &Report) -> Result<()> {
    page.map_or(Ok(()), |file| write_output(file, &report.render(Format::Html)))
}

fn output_file(path: &Path) -> Result<OutputFile> {
    OutputFile::open(path).map_err(|e| cannot_write(path, e))
}

fn write_output(file: &OutputFile, text: &str) -> Result<()> {
    file.write(text.as_bytes()).map_err(|e| cannot_write(file.path(), e))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    Error::invalid(format!("cannot write {}", path.display())).with_source(error)
}

fn run_fix(
    names: &[String],
    apply: &[String],
    undo: &Path,
    from: &From,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8> {
    if let Some(name) = names.iter().chain(apply).find(|name| rules::find(name).is_none()) {
        return Err(Error::not_found(format!("there is no rule {name}: see doctor rules")));
    }
    if !apply.is_empty() && from.root != Path::new("/") {
        return Err(Error::invalid("fixes are applied to this host only, not to a capture"));
    }
    if !apply.is_empty() {
        fix::check_new(undo)?;
    }
    let mut host = from.host()?;
    if from.root == Path::new("/") {
        let uuids = live::uuids(host.tree());
        host = host.with_files(uuids);
    }
    let report = examine(&host);
    if apply.is_empty() {
        if !fix::is_wanted(&report, names) && !json {
            note!(
                "nothing to fix: {}",
                match names.is_empty() {
                    true => "no rule found anything".to_owned(),
                    false => format!("{} found nothing", names.join(", ")),
                }
            );
            return Ok(0);
        }
        let script = fix::script(&report, names);
        let text = if json { format!("{}\n", serde_json::json!({ "script": script })) } else { script };
        return print(out, &text).map(|()| 0);
    }
    if !json && std::io::stderr().is_terminal() {
        let planned = fix::planned(&report, apply);
        planned.iter().for_each(|change| note!("{change}"));
        if !planned.is_empty() {
            note!("this script changes and reverts it: {}", undo.display());
        }
    }
    applied(fix::apply(&report, apply, undo)?, undo, json, out)
}

/// Prints what was changed, also where that is not all.
fn applied(applied: fix::Applied, undo: &Path, json: bool, out: &mut dyn Write) -> Result<u8> {
    let fix::Applied { changed, all } = applied;
    if all.is_ok() || !changed.is_empty() {
        let text = match json {
            true => format!("{}\n", serde_json::json!({"ran": changed, "undo": undo})),
            false => format!("{}\nto undo: sh {} undo\n", changed.join("\n"), undo.display()),
        };
        print(out, &text)?;
    }
    all.map(|()| 0)
}

/// The report of the rules of virtual machines on one definition.
fn machine(file: &Path) -> Result<Report> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Error::invalid("want the path of a file"))?;
    let text = Tree::open(folder)?.text(name).map_err(|absent| refused(file, &absent))?;
    let path = if text.trim_start().starts_with('<') {
        "etc/libvirt/qemu/given.xml"
    } else {
        "openstack/given.json"
    };
    let host = Host::once(Tree::from_files([(path.to_owned(), text.into_bytes())]), Said::default());
    if let Some(absent) = host.machines().err().or_else(|| host.offers().err()) {
        return Err(refused(file, &absent));
    }
    let of_machines = rules::all().filter(|rule| rules::is_of_a_machine(rule.id));
    let mut report = Report::new(&host, of_machines);
    report.subject = crate::clean(&file.display().to_string());
    Ok(report)
}

fn refused(file: &Path, absent: &Absent) -> Error {
    let (kind, why) = match &absent.why {
        Why::Missing => (ErrorKind::NotFound, "is not there".to_owned()),
        Why::Denied => (ErrorKind::Denied, "may not be read".to_owned()),
        Why::Damaged(why) => (ErrorKind::Invalid, crate::clean(why)),
        Why::Once | Why::Unsaid(_) => (ErrorKind::Internal, absent.to_string()),
    };
    Error::new(kind, format!("{} {why}", file.display()))
}

#[cfg(test)]
mod tests;
