//! Fixes as a script for review that can undo itself; and the application of named fixes.
//!
//! Only fixes that run on the examined machine and whose settings could be read become commands of the script. All
//! others are comments in it.
//!
//! Guarantees of the script:
//!
//! 1. A setting is changed only if it still holds what it held when the host was examined.
//! 2. What is changed is recorded beside the script before it is changed, with the settings that the kernel may change
//!    with it, so that `undo` sets back exactly that: also after a kill, after a second run, and where part of a fix was
//!    in place already.
//! 3. `undo` leaves a setting alone that somebody else has changed since, or that now belongs to another device or file
//!    system, and says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use frostline_base::{Error, Result};
use frostline_show::OutputFile;

use crate::report::{Finding, Remedy, Report};
use crate::rules;
use crate::setting::SHELL;
use crate::text::{line, shell_word};

impl Remedy {
    /// Whether it can be applied here and taken back.
    fn is_applicable(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// The findings of the rules that are named; all when none is.
fn chosen<'a>(report: &'a Report, names: &[String]) -> Vec<&'a Finding> {
    let ids: Vec<&str> = names.iter().filter_map(|name| rules::find(name)).map(|rule| rule.id).collect();
    report.findings.iter().filter(|finding| ids.is_empty() || ids.contains(&finding.rule)).collect()
}

/// Whether the rules that are named, or any when none is, found something.
pub(crate) fn is_wanted(report: &Report, names: &[String]) -> bool {
    !chosen(report, names).is_empty()
}

/// What [`apply`] is going to change, as far as the first fix of each finding works.
pub(crate) fn planned(report: &Report, names: &[String]) -> Vec<String> {
    let mut planned = Vec::new();
    for finding in chosen(report, names) {
        let first = finding.fixes.iter().find(|fix| fix.is_applicable());
        for step in first.iter().flat_map(|fix| &fix.steps) {
            let change = format!("{}: {}: {} -> {}", finding.rule, step.name, step.was, step.to);
            planned.push(line(&change, 4096));
        }
    }
    planned
}

const HEAD: &str = "#!/bin/sh
# Made by frostline doctor. Read it before you run it.
# sh FILE        fixes what is not commented out, where the host is as it was when it was examined
# sh FILE undo   sets back what this script has changed, of which it keeps a record in FILE.changed
set -uf
# Where blkid, ethtool and losetup are, which not every user's PATH has.
PATH=$PATH:/usr/sbin:/sbin
record=$0.changed
status=0
";

const FUNCTIONS: &str = r#"
# read_now NUMBER: what it holds
read_now() {
    now=$(get_"$1") && [ -n "$now" ] && return
    echo "$name cannot be read" >&2
    return 1
}

# is_of NUMBER OWNER ELSE: whether it is of this device or file system, or of any if it is not known which
is_of() {
    present=$(whose_"$1")
    told=$?
    [ -n "$2" ] && [ "$present" != "$2" ] || return 0
    [ "$told" != 2 ] || { echo "$name: cannot tell of which file system: blkid is not in PATH" >&2; return 1; }
    echo "$name $3" >&2
    return 1
}

# held: of settings that may change with another one, what each holds now and whose it is, if it can be read
held() {
    while read -r kind dev _; do
        value=$(now_"$kind" "$dev") && [ -n "$value" ] && printf '%s\n' "$kind $dev $(whose "$kind" "$dev") $value"
    done
    :
}
# line_of KIND NAME: its line of such a list
line_of() {
    while read -r of_kind of_name rest; do
        [ "$of_kind $of_name" != "$1 $2" ] || printf '%s\n' "$of_kind $of_name $rest"
    done
}

# change NUMBER: sets it, if it still holds what it held
change() {
    mine=$record/$1
    if [ -s "$mine/left" ] && [ ! -e "$mine/due" ] && [ ! -e "$mine/begun" ]; then
        now=$(get_"$1")
        [ "$now" != "$(cat "$mine/left")" ] || return 0
    fi
    # It was killed, could not set all back, or somebody has set it back.
    revert "$1" || return 1
    eval "was=\$was_$1 to=\$to_$1 back=\$back_$1 name=\$name_$1 owner=\$owner_$1"
    read_now "$1" || return 1
    if [ "$now" != "$was" ]; then
        echo "$name was $was when the host was examined and is $now now: examine the host again" >&2
        return 1
    fi
    is_of "$1" "$owner" "belongs to another device or file system than when the host was examined: examine it again" ||
        return 1
    rm -rf "$record/new" && mkdir -p "$record/new" && printf '%s\n' "$present" > "$record/new/owner" || return 1
    ( others_"$1" "$to" ) > "$record/new/names" && held < "$record/new/names" > "$record/new/others" &&
        mv "$record/new" "$mine" || { rm -rf "$record/new"; echo "$name is left alone" >&2; return 1; }
    if set_"$1" "$to" && now=$(get_"$1") && [ "$now" != "$was" ]; then
        held < "$mine/others" > "$mine/since"
        echo "$now" > "$mine/left"
        echo "$name: $was -> $now"
        return 0
    fi
    echo "$name could not be changed" >&2
    revert "$1"
    return 1
}

# revert NUMBER: sets it back, if this script changed it and nobody has since
revert() {
    mine=$record/$1
    [ -e "$mine" ] || return 0
    eval "was=\$was_$1 back=\$back_$1 name=\$name_$1"
    owner= left=
    IFS= read -r owner < "$mine/owner"
    [ ! -e "$mine/left" ] || IFS= read -r left < "$mine/left"
    set_back "$1" && rm -rf "$record/new" && mv "$mine" "$record/new" && rm -rf "$record/new" && return
    status=1
    return 1
}
set_back() {
    is_of "$1" "$owner" "is gone, or belongs to another device or file system now: left alone" && read_now "$1" || return 1
    # An undo that was killed may have left anything: it is completed as it was begun.
    if [ ! -e "$mine/due" ]; then
        if [ "$now" != "$was" ] && [ -n "$left" ] && [ "$now" != "$left" ]; then
            echo "$name is $now and not $left, as this script left it: somebody has changed it since" >&2
            return 1
        fi
        due < "$mine/others" > "$mine/new" && mv "$mine/new" "$mine/due" || return 1
    fi
    if [ "$now" != "$was" ]; then
        set_"$1" "$back"
        if [ "$(get_"$1")" != "$was" ]; then
            echo "$name could not be set back to $was" >&2
            end_undo "$1"
            return 1
        fi
        echo "$name: $now -> $was"
    fi
    others_back < "$mine/due" && return
    end_undo "$1"
    return 1
}
# due: of settings that changed with it, what each should be: now if somebody has changed it since, else as it was
due() {
    while read -r kind dev owner value; do
        line="$kind $dev $owner $value"
        if [ -n "$left" ]; then
            is=$(printf '%s\n' "$kind $dev" | held)
            since=$(line_of "$kind" "$dev" < "$mine/since")
            case $is in
            "$since") ;;
            "$kind $dev $owner "*) [ -z "$since" ] || line=$is ;;
            esac
        fi
        printf '%s\n' "$line"
    done
}
others_back() {
    all=0
    while read -r kind dev owner value; do
        if [ "$(whose "$kind" "$dev")" != "$owner" ]; then
            echo "$kind $dev is gone, or belongs to another device or scheduler now: left alone" >&2
            continue
        fi
        [ "$(now_"$kind" "$dev")" = "$value" ] || set_"$kind" "$dev" "$value" && continue
        [ "$kind" = options ] || echo "$kind $dev could not be set back to $value with $name" >&2
        all=1
    done
    return "$all"
}
# end_undo NUMBER: records what an undo has left that could not set all back. What it did not mean to change stays recorded as
# the fix left it.
end_undo() {
    while read -r kind dev owner value; do
        line="$kind $dev $owner $value"
        if [ "$(line_of "$kind" "$dev" < "$mine/due")" = "$line" ]; then
            printf '%s\n' "$kind $dev" | held
        else
            line_of "$kind" "$dev" < "$mine/since"
        fi
    done < "$mine/others" > "$mine/new" && mv "$mine/new" "$mine/since" &&
        get_"$1" > "$mine/new" && mv "$mine/new" "$mine/left" && mv "$mine/due" "$mine/begun"
}
"#;

/// A POSIX shell script: without an argument it fixes, with `undo` it sets back what it changed, in reverse.
pub(crate) fn script(report: &Report, names: &[String]) -> String {
    let mut steps = String::new();
    // A setting that several findings name is changed once, as the worst of them wants.
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut fixes = String::new();
    for finding in chosen(report, names) {
        for step in finding.fixes.iter().flat_map(|fix| &fix.steps) {
            let number = numbers.len() + 1;
            if !numbers.contains_key(step.name.as_str()) {
                numbers.insert(&step.name, number);
                let [was, to, back, name, owner] =
                    [&step.was, &step.to, &step.back, &step.name, &step.owner].map(|text| shell_word(text));
                let _ = write!(
                    steps,
                    "\nwas_{number}={was} to_{number}={to} back_{number}={back} name_{number}={name} \
                     owner_{number}={owner}\n\
                     get_{number}() {{ {}; }}\nset_{number}() {{ {}; }}\nwhose_{number}() {{ {}; }}\n\
                     others_{number}() {{ {}; }}\n",
                    step.get, step.set, step.whose, step.others
                );
            }
        }
        fixes += &fix_lines(finding, &numbers);
    }
    let undo: String = (1..=numbers.len()).rev().map(|number| format!("    revert {number}\n")).collect();
    format!(
        "{HEAD}{SHELL}{FUNCTIONS}{steps}\nfix() {{\n    :\n{fixes}}}\n\nundo() {{\n    :\n{undo}}}\n\n\
         if [ \"${{1:-}}\" = undo ]; then undo; else fix; fi\n\
         rm -rf \"$record/new\"\nrmdir \"$record\" 2> /dev/null\nexit \"$status\"\n"
    )
}

fn fix_lines(finding: &Finding, numbers: &BTreeMap<&str, usize>) -> String {
    let mut out = format!(
        "\n    # {} {}: {}\n    # {}\n",
        finding.rule, finding.object, finding.title, finding.observed
    );
    let mut alternatives = Vec::new();
    for fix in &finding.fixes {
        let _ = writeln!(out, "    # {}: {}", fix.side.label(), fix.what);
        if let Some(why) = &fix.refused {
            let _ = writeln!(out, "    #     not possible: {why}");
        }
        fix.run.iter().for_each(|command| out += &format!("    #     {command}\n"));
        if fix.is_applicable() {
            let mine: Vec<usize> =
                fix.steps.iter().filter_map(|step| numbers.get(step.name.as_str()).copied()).collect();
            let change: Vec<String> = mine.iter().map(|number| format!("change {number}")).collect();
            let revert: String = mine.iter().rev().map(|number| format!("revert {number}; ")).collect();
            // All of a fix, or nothing of it.
            alternatives.push(format!("{{ {} || {{ {revert}false; }}; }}", change.join(" && ")));
        }
    }
    if !alternatives.is_empty() {
        // The first that works: what comes later is for hosts where it does not.
        let failed = format!("{{ echo 'not fixed: {}' >&2; status=1; }}", finding.rule);
        let _ = writeln!(out, "    {} ||\n        {failed}", alternatives.join(" ||\n        "));
    }
    out
}

/// Checks that the script can be written to `saved`, which must be new. Changes nothing.
///
/// # Errors
/// Conflict if not, or if the record of another script is beside it: its settings have the same numbers, so that this one
/// would take them for its own.
pub(crate) fn check_new(saved: &Path) -> Result<()> {
    let mut record = saved.as_os_str().to_owned();
    record.push(".changed");
    if Path::new(&record).symlink_metadata().is_ok() {
        return Err(Error::conflict(format!(
            "{} records what an earlier fix changed: undo that first, or name another file",
            Path::new(&record).display()
        )));
    }
    if saved.symlink_metadata().is_ok() {
        return Err(cannot_save(saved, std::io::ErrorKind::AlreadyExists.into()));
    }
    OutputFile::open(saved).map(drop).map_err(|e| cannot_save(saved, e))
}

fn cannot_save(saved: &Path, error: std::io::Error) -> Error {
    Error::conflict(format!("cannot write the undo to {}", saved.display())).with_source(error)
}

/// What a script changed, and whether that is all that it should.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) changed: Vec<String>,
    pub(crate) all: Result<()>,
}

/// Applies the fixes of the rules that are named, each finding's first that works.
/// The script is written to `saved`, which must be new, and run from there; it can undo what it did.
pub(crate) fn apply(report: &Report, names: &[String], saved: &Path) -> Result<Applied> {
    for name in names {
        let rule = rules::find(name)
            .ok_or_else(|| Error::invalid(format!("there is no rule {name}: see doctor rules")))?;
        let findings = report.findings.iter().filter(|finding| finding.rule == rule.id);
        let fixes: Vec<&Remedy> = findings.flat_map(|finding| &finding.fixes).collect();
        if !fixes.iter().any(|fix| fix.is_applicable()) {
            let why: Vec<&str> = fixes.iter().filter_map(|fix| fix.refused.as_deref()).collect();
            let separator = if why.is_empty() { "" } else { ": " };
            return Err(Error::invalid(format!(
                "nothing to apply: {} found nothing that can be fixed and undone here{separator}{}",
                rule.id,
                why.join("; ")
            )));
        }
    }
    if names.is_empty() {
        return Err(Error::invalid("nothing to apply: name the rules whose fixes are wanted"));
    }
    check_new(saved)?;
    let file = OpenOptions::new().write(true).create_new(true).open(saved);
    file.and_then(|mut file| file.write_all(script(report, names).as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|e| cannot_save(saved, e))?;
    // A path without a slash would be looked for in PATH.
    let path = std::path::absolute(saved).unwrap_or_else(|_| saved.to_owned());
    let output = Command::new("/bin/sh")
        .arg(path)
        .output()
        .map_err(|e| Error::unavailable("cannot run /bin/sh").with_source(e))?;
    let said = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(|text| line(text, 4096)).collect()
    };
    let all = if output.status.success() {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{}; to undo what was done: sh {} undo",
            said(&output.stderr).join("; "),
            shell_word(&saved.to_string_lossy())
        )))
    };
    Ok(Applied { changed: said(&output.stdout), all })
}

#[cfg(test)]
mod real;
#[cfg(test)]
mod tests;
