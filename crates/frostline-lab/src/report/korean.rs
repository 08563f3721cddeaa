//! Korean translations of what the lab itself says in a run: gates, notes, and how cells were obtained.
//!
//! A run has its texts in English. Each is one of [`TEXTS`] with values in its places `{}`. Its translation is found by the
//! words around these. A value that is itself such a text is translated, too. Names of metrics, factors, levels and cells,
//! and the output of programs, are not translated.

use std::collections::BTreeMap;

/// How deep texts within texts are translated. A run's file can nest them to any depth.
const DEPTH_MAX: usize = 3;

/// The Korean of a text of the study or of the lab; none for other texts. A comparison's name may continue with a comma and
/// its level.
pub(super) fn korean(study: &BTreeMap<String, String>, text: &str) -> Option<String> {
    within(study, text, DEPTH_MAX)
}

fn within(study: &BTreeMap<String, String>, text: &str, depth: usize) -> Option<String> {
    let of_level = || {
        let mut starts = text.rmatch_indices(", ").map(|(at, _)| text.split_at(at));
        starts.find_map(|(start, rest)| Some(format!("{}{rest}", study.get(start)?)))
    };
    let of_lab = || {
        TEXTS.iter().find_map(|(english, korean)| {
            let known = |value: &str| depth.checked_sub(1).and_then(|depth| within(study, value, depth));
            let inner = |value: &str| {
                // If a cell lacks several things, each is translated.
                let all = || value.split("; ").map(known).collect::<Option<Vec<_>>>();
                all()
                    .map(|parts| parts.join(". "))
                    .or_else(|| known(value))
                    .unwrap_or_else(|| value.to_owned())
            };
            Some(filled(korean, &values(english, text)?.into_iter().map(inner).collect::<Vec<_>>()))
        })
    };
    study.get(text).cloned().or_else(of_level).or_else(|| counted(text)).or_else(of_lab)
}

/// A count, such as `2 virtual CPUs`.
fn counted(text: &str) -> Option<String> {
    let (number, noun) = text.split_once(' ')?;
    let number: u64 = number.parse().ok()?;
    let is_it = |known: &str| noun == known || noun.strip_suffix('s') == Some(known);
    let (_, noun, unit) = NOUNS.iter().find(|(english, ..)| is_it(english))?;
    Some(format!("{noun} {number}{unit}"))
}

/// What texts count.
const NOUNS: [(&str, &str, &str); 4] = [
    ("sample", "표본", "개"),
    ("cell", "셀", "개"),
    ("virtual CPU", "가상 CPU", "개"),
    ("queue pair", "큐", "쌍"),
];

/// The values in the places of `pattern`; none if `text` does not match it.
fn values<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let mut parts = pattern.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut parts = parts.peekable();
    let mut values = Vec::new();
    while let Some(part) = parts.next() {
        let end = match parts.peek() {
            Some(_) => rest.find(part)?,
            None => rest.strip_suffix(part)?.len(),
        };
        values.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    rest.is_empty().then_some(values)
}

/// `korean` with a value in place of each number in braces.
fn filled(korean: &str, values: &[String]) -> String {
    let mut parts = korean.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.filter_map(|part| part.split_once('}')).fold(first, |filled, (number, rest)| {
        let value = number.parse().ok().and_then(|at: usize| values.get(at));
        filled + value.map_or("", String::as_str) + rest
    })
}

/// English with its places, and Korean with the number of the value in each.
const TEXTS: &[(&str, &str)] = &[
    // Gates. A text that contains others precedes them.
    ("voided by {}: {}", "무효({0}): {1}"),
    ("errors of the tool: {}", "도구의 오류 {0}건"),
    ("loop devices do direct I/O", "루프 장치가 직접 I/O를 합니다"),
    ("loop devices fell back to the page cache", "루프 장치가 직접 I/O 대신 페이지 캐시를 썼습니다"),
    ("{} % of CPU time stolen, at most {}", "다른 가상 머신에 빼앗긴 CPU 시간 {0} %, 허용 {1} % 이하"),
    ("{} % of 10 s waiting for a CPU, at most {}", "10초 중 CPU를 기다린 시간 {0} %, 허용 {1} % 이하"),
    (
        "{} % of requests held up by this host's disk, at most {}",
        "이 호스트의 디스크 때문에 늦어진 요청 {0} %, 허용 {1} % 이하",
    ),
    (
        "{} of the data file in the page cache, at most {}",
        "데이터 파일 중 페이지 캐시에 있는 비율 {0}, 허용 {1} 이하",
    ),
    (
        "device over application bytes {}, within {} to {}",
        "애플리케이션 바이트 대비 장치 바이트 {0}, 허용 {1}–{2}",
    ),
    ("buckets {} % full at the start, wanted {} %", "시작할 때 크레딧 {0} %, 있어야 할 값 {1} %"),
    ("{} bytes in {} s", "{1}초에 {0}바이트"),
    (
        "{} of the volumes' limits used, at least {}; the guest's CPUs {} % busy",
        "볼륨 한도 사용률 {0}, 허용 {1} 이상. 게스트 CPU 사용률 {2} %",
    ),
    ("the disks moved {} of what they may, at most {}", "디스크가 한도의 {0}배를 전송, 허용 {1}배 이하"),
    (
        "the disks moved {} of the application's bytes, at least {}",
        "디스크가 애플리케이션 바이트의 {0}배를 전송, 허용 {1}배 이상",
    ),
    (
        "the ARC answered {} % of data reads, at most {} %",
        "데이터 읽기 중 ARC가 답한 비율 {0} %, 허용 {1} % 이하",
    ),
    // What ends a sample.
    (
        "{} disappeared: what was mounted there is gone",
        "{0} 경로가 사라졌습니다. 마운트되어 있던 것이 없습니다",
    ),
    (
        "{} is mounted read-only: mount it with -o remount,rw",
        "{0} 경로가 읽기 전용으로 마운트되어 있습니다. -o remount,rw로 다시 마운트하십시오",
    ),
    (
        "{} is full: {} MiB are free, and {} MiB are needed",
        "{0} 경로에 공간이 없습니다. {2} MiB가 필요하지만 {1} MiB가 남았습니다",
    ),
    ("the kernel refused the options: {}", "커널이 옵션을 거부했습니다: {0}"),
    // Notes.
    (
        "VOIDED: {} in {}; they are in no figure. Each cell says why. For cpu_pressure, run when this machine is idle, or allow more with --cpu-pressure-max.",
        "무효: {1}의 {0}. 어떤 수치에도 들어가지 않았으며 이유는 셀마다 적혀 있습니다. cpu_pressure는 장비가 한가할 때 실행하거나 --cpu-pressure-max로 더 허용하십시오.",
    ),
    (
        "VOIDED: {} in {}; they are in no figure. Each cell says why.",
        "무효: {1}의 {0}. 어떤 수치에도 들어가지 않았으며 이유는 셀마다 적혀 있습니다.",
    ),
    (
        "The model is within 10 % of the measured MiB/s in {} of {} cells ({} %); the largest error is {} %.",
        "모델이 측정한 MiB/s의 10 % 이내인 셀은 {1}개 중 {0}개({2} %)이며, 가장 큰 오차는 {3} %입니다.",
    ),
    (
        "How busy the CPUs were is judged in no sample of {}: there is no cpu_pressure_max.",
        "{0}의 표본에는 cpu_pressure_max가 없어 CPU가 얼마나 바빴는지 판정하지 않습니다.",
    ),
    (
        "On one file system ({}), so volumes are not compared: {}.",
        "같은 파일 시스템({0})에 있어 볼륨 간의 비교가 아닙니다: {1}.",
    ),
    (
        "Samples were judged by a CPU pressure of at most {} % instead of the study's, by request.",
        "요청에 따라 연구가 정한 값 대신 CPU 압박 {0} % 이하를 기준으로 표본을 판정했습니다.",
    ),
    ("Changed on the host: {}.", "호스트에서 바꾼 것: {0}."),
    ("all that is on {} is overwritten", "{0}의 내용을 모두 덮어씁니다"),
    (
        "queue/write_cache of the loop devices that the run makes, put back after each",
        "실행이 만드는 루프 장치의 queue/write_cache(표본마다 되돌림)",
    ),
    (
        "the page cache of this machine is dropped before some samples",
        "일부 표본 전에 이 장비의 페이지 캐시를 비움",
    ),
    (
        "Guests: Linux {}, emulated (TCG): {}. Only ratios between settings of guests mean anything.",
        "게스트: Linux {0}, 에뮬레이션(TCG): {1}. 게스트 설정 사이의 비율만 의미가 있습니다.",
    ),
    ("Guests: Linux {}, under KVM: {}.", "게스트: Linux {0}, KVM: {1}."),
    (
        "8 TiB of {}: {} volumes are the fewest with the highest burst, {} MiB/s for {} h from full buckets, then {} MiB/s. More volumes add nothing.",
        "{0} 8 TiB: 버스트가 가장 높은 최소 볼륨 수는 {1}개입니다. 크레딧이 가득 찼을 때 {3}시간 동안 {2} MiB/s, 그 뒤에는 {4} MiB/s입니다. 볼륨을 더 늘려도 얻는 것이 없습니다.",
    ),
    (
        "Time scale {}: the buckets of the cells with bucket=cliff are {} times smaller than real ones, and so is the time until they are empty; rates are real. All other cells are unscaled.",
        "시간 축척 {0}: bucket=cliff인 셀의 버킷과 그것이 비는 시간은 실제의 {1}분의 1입니다. 속도는 실제와 같고, 다른 셀에는 축척을 쓰지 않았습니다.",
    ),
    ("Resumed after {}.", "{0} 뒤에 이어서 실행했습니다."),
    ("null control, {}", "대조군, {0}"),
    ("null control", "대조군"),
    // How cells were obtained.
    ("null control: the same as {}", "대조군, 같은 셀: {0}"),
    ("{}; by the volume model in virtual time", "{0}. 가상 시간에서 볼륨 모델로 계산"),
    ("{}; published figures only", "{0}. 발표값만 있음"),
    ("{}; the volume model says nothing about it", "{0}. 볼륨 모델로는 계산할 수 없음"),
    ("published figures only: {}", "발표값만 있음: {0}"),
    ("the simulation was asked for", "시뮬레이션을 요청함"),
    ("the volume model is what this cell is about", "볼륨 모델에 관한 셀"),
    ("everything it requires is here", "필요한 것이 모두 있음"),
    ("in /{}", "/{0}에서"),
    ("reading /{}", "/{0} 읽기"),
    ("overwriting /{}", "/{0} 덮어쓰기"),
    ("on a device whose volatile cache drains at {} MiB/s", "휘발성 캐시를 {0} MiB/s로 비우는 장치"),
    ("on a loop device on an ordinary file", "일반 파일 위의 루프 장치"),
    ("real tools on emulated volumes", "에뮬레이션한 볼륨에서 실제 도구"),
    ("real PostgreSQL on emulated storage", "에뮬레이션한 저장소에서 실제 PostgreSQL"),
    ("the kernel's file system on a device that records", "쓰기를 기록하는 장치에서 커널의 파일 시스템"),
    ("real tools in a guest with throttled disks; {}", "디스크 속도를 제한한 게스트에서 실제 도구. {0}"),
    (
        "real tools in a guest on emulated volumes slowed {} times; {}",
        "{0}배 느리게 에뮬레이션한 볼륨이 있는 게스트에서 실제 도구. {1}",
    ),
    ("real tools in a guest on emulated volumes; {}", "에뮬레이션한 볼륨이 있는 게스트에서 실제 도구. {0}"),
    ("real tools in guests of {} and {}; {}", "{0}, {1}인 게스트에서 실제 도구. {2}"),
    ("real tools in guests; {}", "게스트에서 실제 도구. {0}"),
    ("emulated (TCG): {}", "에뮬레이션(TCG): {0}"),
    ("under KVM: {}", "KVM: {0}"),
    (
        "under KVM if a stock kernel runs under it, which is tried when the run begins",
        "일반 커널이 KVM에서 실행되면 KVM(실행을 시작할 때 시험)",
    ),
    (
        "/dev/kvm is there but a stock kernel does not run: {}",
        "/dev/kvm은 있지만 일반 커널이 실행되지 않음: {0}",
    ),
    ("/dev/kvm cannot be opened: {}", "/dev/kvm을 열 수 없음: {0}"),
    ("cannot write {}: {}", "{0}에 쓸 수 없음: {1}"),
    ("the kernel of image `{}` ran under KVM", "이미지 `{0}`의 커널이 KVM에서 실행됨"),
    (
        "needs root (block devices and mounts): run it with sudo",
        "루트 권한이 필요함(블록 장치와 마운트): sudo로 실행하십시오",
    ),
    ("needs /dev/{} (kernel option {})", "필요한 /dev/{0} 없음(커널 옵션 {1})"),
    ("needs /dev/vhost-net: `modprobe vhost_net`", "/dev/vhost-net이 필요함: `modprobe vhost_net`"),
    (
        "the kernel has no {} (`modprobe {}` if it is a module)",
        "커널에 없는 것: {0}(모듈이면 `modprobe {1}`)",
    ),
    ("{} is missing: apt-get install {}", "없는 도구 {0}: apt-get install {1}"),
    // What to buy.
    (
        "Rates are the model's for a raw stripe with chunks no smaller than a request; no cache, no compression.",
        "속도는 스트라이프 조각이 요청보다 작지 않은 볼륨 묶음을 모델로 계산한 값입니다. 캐시와 압축은 없습니다.",
    ),
    ("A stripe is lost when one of its volumes is. {}", "스트라이프는 볼륨 하나만 잃어도 모두 잃습니다. {0}"),
    (
        "Dollars are for one copy without snapshots (--copies, --snapshots).",
        "비용은 스냅숏이 없는 사본 하나의 값입니다(--copies, --snapshots).",
    ),
    ("Dollars include {} GiB of snapshots.", "비용에는 스냅숏 {0} GiB가 들어 있습니다."),
    (
        "Dollars are for {} copies and {} GiB of snapshots; the odds are that all are lost in one year and none is replaced.",
        "비용은 사본 {0}개와 스냅숏 {1} GiB의 값입니다. 확률은 한 해에 모두 잃고 하나도 바꾸지 않는 경우입니다.",
    ),
    (
        "Dollars are for {} copies; the odds are that all are lost in one year and none is replaced.",
        "비용은 사본 {0}개의 값입니다. 확률은 한 해에 모두 잃고 하나도 바꾸지 않는 경우입니다.",
    ),
    (
        "The peak counts as one stretch every day: bursts that are spread over the day ask for less.",
        "피크는 하루에 한 번 이어지는 것으로 봅니다. 하루에 나뉘어 있으면 필요한 것이 더 적습니다.",
    ),
    (
        "Hours from full: that a new volume starts full is not documented for {}.",
        "크레딧이 가득 찼을 때의 시간: {0}의 새 볼륨이 가득 찬 채 시작한다는 문서는 없습니다.",
    ),
    (
        "Where a latency is given it is the vendor's usual one, which names no percentile, and the wait at the limits for requests that come at random (M/D/1), at most that for 64 outstanding ones.",
        "지연 시간은 백분위를 밝히지 않은 공급자의 통상값에, 무작위로 도착하는 요청이 한도에서 기다리는 시간(M/D/1, 동시 요청 64개까지)을 더한 값입니다.",
    ),
    (
        "User guide of June 2023. Prices are those of 2023 (us-east-1) and of a study of February 2024 (ap-northeast-2).",
        "2023년 6월의 사용 설명서. 가격은 2023년(us-east-1)과 2024년 2월의 연구(ap-northeast-2)의 값입니다.",
    ),
    (
        "The 2023 documentation with the gp3 limits of September 2025; prices were not read again, so they are unverified here.",
        "2023년 문서에 2025년 9월의 gp3 한도를 더했습니다. 가격은 다시 확인하지 않았습니다.",
    ),
    (
        "Volume limits of the 2023 documentation with the gp3 limits of September 2025. Prices are not the vendor's page: see the evidence of each.",
        "볼륨 한도는 2023년 문서에 2025년 9월의 gp3 한도를 더한 것입니다. 가격은 공급자의 페이지에서 온 것이 아니므로 각각의 근거를 보십시오.",
    ),
];

#[cfg(test)]
mod tests;
