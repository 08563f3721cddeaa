use frostline_model::catalogue::Kind;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

impl Judge<'_> {
    /// Volumes of a class in every size that holds the data, with rates of the same steps.
    fn every_size(&self, name: &str) -> impl Iterator<Item = Judged> {
        let class = &self.catalogue.classes[name];
        let rates: Vec<VolumeSpec> = match class.model {
            Kind::Provisioned => self.specs(name, class, 1),
            _ => vec![VolumeSpec::new(name, 0.0)],
        };
        let least = self.question.data_gib.max(class.gib_min.value) as u32;
        let sizes = least..=class.gib_max.value as u32;
        let specs = sizes.flat_map(move |gib| {
            rates.clone().into_iter().map(move |rate| VolumeSpec { gib: f64::from(gib), ..rate })
        });
        specs.filter_map(|spec| self.judge(class, spec, 1))
    }
}

fn need(text: &str) -> Need {
    text.parse().unwrap()
}

fn question(text: &str) -> Question {
    Question {
        need: need(text),
        data_gib: 8192.0,
        region: "ap-northeast-2".to_owned(),
        instance: None,
        hours_per_day: None,
        count_max: 16,
        copies: 1,
        snapshot_gib: None,
    }
}

fn decided(question: &Question) -> Decision {
    decide(&Catalogue::built_in("ebs-2023").unwrap(), question).unwrap()
}

fn of<'a>(choices: &'a [Choice], class: &str, count: u32) -> &'a Choice {
    choices.iter().find(|choice| choice.volume.class == class && choice.count == count).unwrap()
}

#[test]
fn a_need_is_read() {
    let read = need("randread bs=128k p99<=20ms 300MiB/s");
    assert_eq!(
        (read.random, read.read_percent, read.read_bytes, read.mib_per_s),
        (true, 100.0, 131_072, 300.0)
    );
    assert_eq!(read.latency, Some(LatencyNeed { quantile: 0.99, ms: 20.0 }));
    assert_eq!(read.iops(), 2400.0);
    assert_eq!(need("1000iops randrw mix=75 bs=4k p999<=500us").latency.unwrap().ms, 0.5);
    assert_eq!(need("write bs=1m 1GiB/s").mib_per_s, 1024.0);
    for text in ["randread bs=128k p99<=20ms 300MiB/s", "rw bs=4k mix=75 10MiB/s", "write bs=1024k 5MiB/s"] {
        assert_eq!(need(text).to_string(), text);
    }
}

#[test]
fn a_mistyped_need_names_the_position_and_the_nearest_word() {
    let error = |text: &str| text.parse::<Need>().unwrap_err().to_string();
    assert_eq!(
        error("randraed bs=128k 300MiB/s"),
        "the need `randraed bs=128k 300MiB/s`, position 1: no word `randraed`; did you mean `randread`?"
    );
    assert!(error("randread bz=128k 300MiB/s").contains("position 10: no setting `bz`; did you mean `bs`?"));
    assert!(error("randread  bs=128q 300MiB/s").contains("position 17: no unit `q`"));
    assert!(
        error("randread p98<=20ms 300MiB/s")
            .contains("position 10: no percentile `p98`; did you mean `p99`?")
    );
    assert!(error("randread p99<=20mz 300MiB/s").contains("position 17: no unit `mz`; did you mean `ms`?"));
    assert!(error("randread 300Mib").contains("position 13: no unit `Mib`"));
    assert!(error("randread 500 iops").contains("position 13: a unit is missing: write 500iops or 500MiB/s"));
    assert!(error("randread randread 1iops").contains("position 10: a second pattern"));
    assert!(error("randread bs=0 1iops").contains("position 13"));
    assert!(error("randread").contains("needs a rate"));
    assert!(error("300MiB/s").contains("needs a pattern"));
    assert!(error("randread mix=5 1iops").contains("goes with rw and randrw"));
    assert!(error("").contains("needs a pattern"));
}

proptest::proptest! {
    #[test]
    fn no_need_is_a_panic(text in "([a-z0-9é<=./ ]|randread|bs=|p99<=|MiB/s| ){0,12}") {
        if let Ok(need) = text.parse::<Need>() {
            proptest::prop_assert!(need.mib_per_s > 0.0 && need.read_bytes > 0);
        }
    }
}

#[test]
fn the_prices_of_the_study() {
    // The study's monthly prices of 8 TB, to the cent.
    let decision = decided(&question("read bs=1m 1MiB/s"));
    let usd = |class: &str| of(&decision.meets, class, 1).usd_per_month.unwrap();
    assert!((usd("gp2") - 933.89).abs() < 0.01, "{}", usd("gp2"));
    assert!((usd("st1") - 417.79).abs() < 0.01);
    assert!((usd("sc1") - 142.54).abs() < 0.01);
    let maxed = decided(&question("randread bs=4k 16000iops"));
    let gp3 = of(&maxed.meets, "gp3", 1);
    assert!((gp3.usd_per_month.unwrap() - (747.11 + 13_000.0 * 0.0057)).abs() < 0.01, "{gp3:?}");
    let both = decided(&question("randread bs=64k 1000MiB/s"));
    assert!((of(&both.meets, "gp3", 1).usd_per_month.unwrap() - 861.11).abs() < 0.01);
}

#[test]
fn only_while_credits_last() {
    let decision = decided(&question("randread bs=128k 200MiB/s"));
    let st1 = of(&decision.while_credits_last, "st1", 4);
    assert_eq!(st1.spec, "st1:2TiB");
    assert_eq!((st1.sustained_mib_per_s, st1.burst_mib_per_s), (40.0, 250.0));
    // 400 of 500 credits a second on each: 2^21 / 320 s; and a day brings 24 h x 80.
    assert!((st1.hours_from_full.unwrap() - 2_097_152.0 / 320.0 / 3600.0).abs() < 1e-9);
    assert!((st1.hours_per_day - 2_097_152.0 / 320.0 / 3600.0).abs() < 1e-9);
    let usd: Vec<f64> =
        decision.while_credits_last.iter().filter_map(|choice| choice.usd_per_month).collect();
    assert!(usd.len() > 3 && usd.windows(2).all(|pair| pair[0] < pair[1] + 0.01), "{usd:?}");
    // It is enough for an hour a day.
    let daily = decided(&Question { hours_per_day: Some(1.0), ..question("randread bs=128k 200MiB/s") });
    assert_eq!(of(&daily.meets, "st1", 4).spec, "st1:2TiB");
    assert!(!decision.meets.iter().any(|choice| choice.spec == "st1:2TiB"));
}

#[test]
fn hours_of_every_day_are_those_that_come_back() {
    // 1 x 8 TiB: 500 credits a second for h hours, 320 back in every one: at most 24 x 320 / 500.
    let decision = decided(&question("randread bs=128k 62.5MiB/s"));
    let st1 = of(&decision.while_credits_last, "st1", 1);
    assert!((st1.hours_from_full.unwrap() - 12.945).abs() < 0.01);
    assert!((st1.hours_per_day - 12.945).abs() < 0.01, "the bucket is the smaller: {st1:?}");
    let sc1 = decided(&question("randread bs=128k 31.25MiB/s"));
    let sc1 = of(&sc1.while_credits_last, "sc1", 1);
    assert!((sc1.hours_per_day - 24.0 * 96.0 / 250.0).abs() < 0.01, "the refill is the smaller: {sc1:?}");
}

#[test]
fn what_is_not_known_is_not_ranked() {
    let decision = decided(&question("randread bs=128k p99<=20ms 30MiB/s"));
    assert!(decision.meets.iter().all(|choice| ["gp2", "gp3"].contains(&choice.volume.class.as_str())));
    let st1 = of(&decision.not_known, "st1", 1);
    assert!(st1.not_known[0].contains("no latency for st1"), "{st1:?}");
    let io2 = of(&decision.not_known, "io2", 1);
    assert_eq!(io2.usd_per_month, None);
    assert!(io2.not_known[0].contains("no price per GiB of io2 in ap-northeast-2"));
    let elsewhere =
        decided(&Question { region: "us-east-1".to_owned(), ..question("randread bs=128k 30MiB/s") });
    assert!(
        of(&elsewhere.not_known, "io2", 1).not_known[0].contains("no price per IOPS of io2 in us-east-1")
    );
}

#[test]
fn a_latency_that_cannot_be_is_refused() {
    let decision = decided(&question("randread bs=128k p99<=5ms 300MiB/s"));
    assert!(decision.refused["gp3"].contains("latency is at least 10"), "{:?}", decision.refused);
    // At 31 of 31.25 MiB/s one volume of sc1 has a queue that no disk could make up for.
    let decision = decided(&question("randread bs=128k p99<=20ms 31MiB/s"));
    assert!(
        !decision
            .not_known
            .iter()
            .any(|choice| choice.volume.class == "sc1" && choice.count == 1 && choice.volume.gib == 8192.0)
    );
}

#[test]
fn a_machine_takes_its_part() {
    let on = |instance: &str| {
        decided(&Question { instance: Some(instance.to_owned()), ..question("read bs=1m 300MiB/s") })
    };
    let large = on("r7g.8xlarge");
    assert_eq!(
        of(&large.meets, "st1", 1).instance_effect.as_deref(),
        Some("r7g.8xlarge does not hold it back")
    );
    let small = on("r7g.xlarge");
    assert!(small.meets.is_empty(), "149 MiB/s sustained");
    let st1 = of(&small.while_credits_last, "st1", 1);
    assert!((st1.sustained_mib_per_s - 149.01).abs() < 0.01);
    assert_eq!((st1.hours_from_full, st1.hours_per_day), (Some(0.5), 0.5));
    assert!(st1.instance_effect.as_ref().unwrap().contains("cuts 320 MiB/s to 149"), "{st1:?}");
}

#[test]
fn a_stripe_is_a_risk() {
    let decision = decided(&question("read bs=1m 100MiB/s"));
    let four = of(&decision.meets, "st1", 4);
    assert!((four.yearly_loss_low.unwrap() - 0.003_994).abs() < 1e-6);
    assert!((four.yearly_loss_high.unwrap() - 0.007_976).abs() < 1e-6);
    assert!((four.times_one_volume.unwrap() - 3.988).abs() < 1e-3);
    // At one price fewer volumes come first.
    let st1: Vec<&Choice> = decision.meets.iter().filter(|choice| choice.volume.class == "st1").collect();
    assert_eq!(st1[0].count, 1);
}

#[test]
fn the_front_only_rises() {
    let decision = decided(&question("randread bs=128k 300MiB/s"));
    assert!(decision.front.len() > 3);
    for pair in decision.front.windows(2) {
        assert!(pair[0].usd_per_month < pair[1].usd_per_month, "{pair:?}");
        assert!(pair[0].sustained_mib_per_s < pair[1].sustained_mib_per_s, "{pair:?}");
    }
    assert!(decision.front[0].what.contains("sc1"), "{:?}", decision.front[0]);
}

#[test]
fn prices_are_of_a_month_and_the_list_ends_at_four_times_the_need() {
    let decision = decided(&question("randread bs=128k p99<=20ms 60MiB/s"));
    let lines = super::text(&decision);
    assert!(lines[0].starts_with("Buy ") && lines[0].ends_with('.'), "{}", lines[0]);
    assert!(lines[2].contains("60MiB/s (480 IOPS) over 8192 GiB"), "{}", lines[2]);
    for line in lines.iter().skip(1).filter(|line| line.contains('$')) {
        assert!(line.contains("/month"), "{line}");
    }
    let front = lines.iter().position(|line| line.starts_with("Dollars a month")).unwrap();
    let rates: Vec<f64> = lines[front + 1..]
        .iter()
        .take_while(|line| line.starts_with("  $"))
        .map(|line| line.split("/month").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert!(rates.len() > 2 && rates.len() < decision.front.len(), "{rates:?}");
    let (last, others) = rates.split_last().unwrap();
    assert!(*last >= 240.0 && others.iter().all(|rate| *rate < 240.0), "{rates:?}");
}

#[test]
fn every_class_is_answered_for() {
    for text in ["randread bs=128k p99<=20ms 300MiB/s", "write bs=1m 5000MiB/s", "randrw bs=16k 90000iops"] {
        let decision = decided(&question(text));
        for class in ["gp2", "gp3", "io2", "sc1", "st1"] {
            let lists = [&decision.meets, &decision.while_credits_last, &decision.not_known];
            let listed = lists.into_iter().flatten().any(|choice| choice.volume.class == class);
            assert!(listed != decision.refused.contains_key(class), "{class} for {text}");
        }
        let lines = super::text(&decision);
        assert!(
            lines.len() > 5 && lines.iter().all(|line| !line.contains("NaN") && !line.contains("inf")),
            "{lines:#?}"
        );
        let json = serde_json::to_value(&decision).unwrap();
        assert_eq!(serde_json::from_value::<Decision>(json).unwrap().meets.len(), decision.meets.len());
    }
}

/// A question from a seed, with few GiB, so that speed decides the size.
fn seeded(random: &mut SmallRng) -> Question {
    let bs = [4, 8, 16, 64, 128, 512][random.random_range(0..6)];
    let rate = (10_f64.powf(0.5 + 2.4 * random.random::<f64>()) * 10.0).round() / 10.0;
    let ends = ["", " p99<=2ms", " p99<=20ms", " peak"];
    let end = match ends[random.random_range(0..ends.len())] {
        " peak" => format!(
            " peak={}MiB/s,{}h",
            rate * f64::from(random.random_range(2..8)),
            random.random_range(1..8)
        ),
        latency => latency.to_owned(),
    };
    Question {
        data_gib: f64::from(random.random_range(10..1000)),
        region: "us-east-1".to_owned(),
        count_max: 1,
        ..question(&format!("randread bs={bs}k {rate}MiB/s{end}"))
    }
}

/// The newest catalogue with small volumes, every size of which can be tried.
fn small() -> Catalogue {
    let mut catalogue = Catalogue::latest();
    for class in catalogue.classes.values_mut() {
        class.gib_max.value = 1200.0;
    }
    catalogue
}

#[test]
fn nothing_of_any_size_is_cheaper() {
    let catalogue = small();
    let mut random = SmallRng::seed_from_u64(12);
    let mut compared = 0;
    for round in 0..40 {
        let question = seeded(&mut random);
        let decision = decide(&catalogue, &question).unwrap();
        let judge = Judge {
            catalogue: &catalogue,
            question: &question,
            prices: catalogue.region(&question.region).unwrap(),
            instance: None,
        };
        for name in catalogue.classes.keys() {
            let found = |choices: &[Choice]| {
                choices.iter().find(|choice| choice.volume.class == *name).and_then(|c| c.usd_per_month)
            };
            let found = [found(&decision.meets), found(&decision.while_credits_last)];
            let [mut meets, mut for_a_while] = [None::<f64>; 2];
            for judged in judge.every_size(name).filter(Judged::is_known) {
                let usd = judged.choice.usd_per_month.unwrap();
                let least = |of: Option<f64>| Some(of.map_or(usd, |least| least.min(usd)));
                match judged {
                    Judged { meets: true, .. } => meets = least(meets),
                    Judged { meets_for_a_while: true, .. } => for_a_while = least(for_a_while),
                    _ => {}
                }
            }
            for (found, least) in found.into_iter().zip([meets, for_a_while]) {
                let is_least = found.zip(least).is_some_and(|(found, least)| found <= least * 1.000_001);
                assert!(
                    found == least || is_least,
                    "{round} {name}: {found:?} for {least:?} of {question:?}"
                );
                compared += u32::from(least.is_some());
            }
        }
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn more_data_is_never_cheaper() {
    let catalogue = Catalogue::latest();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..8 {
        let question = Question { count_max: 4, ..seeded(&mut random) };
        let mut last = 0.0;
        for data_gib in [1.0, 3.0, 8.0, 20.0, 21.0, 50.0, 128.0, 300.0, 1000.0, 1100.0, 4000.0] {
            let decision = decide(&catalogue, &Question { data_gib, ..question.clone() }).unwrap();
            let usd = decision.meets.first().map_or(f64::INFINITY, |choice| choice.usd_per_month.unwrap());
            assert!(usd >= last * 0.999_999, "{data_gib} GiB: {usd} after {last} for {question:?}");
            last = usd;
        }
    }
}

#[test]
fn a_small_volume_is_enlarged_for_its_speed() {
    let bought = |need: &str, data_gib: f64, count_max: u32| {
        let region = "us-east-1".to_owned();
        let asked = Question { region, data_gib, count_max, ..question(need) };
        let best = decide(&Catalogue::latest(), &asked).unwrap().meets.remove(0);
        (format!("{} x {}", best.count, best.spec), (best.usd_per_month.unwrap() * 100.0).round() / 100.0)
    };
    assert_eq!(
        bought("randread bs=8k 12000iops", 10.0, 1),
        ("1 x gp3:24GiB,iops=12000,mbps=125".to_owned(), 46.92)
    );
    let (what, usd) = bought("randread bs=8k 60000iops", 20.0, 16);
    assert!(what.contains(" x gp3:") && usd <= 70.24, "{what} {usd}");
    let (what, usd) = bought("randread bs=8k p99<=2ms 70000iops", 20.0, 1);
    assert_eq!((what.as_str(), usd), ("1 x io2:70GiB,iops=70000", 3735.85));
    assert_eq!(bought("randread bs=512k 22.2MiB/s", 1604.0, 1), ("1 x sc1:3789GiB".to_owned(), 56.84));
}

#[test]
fn a_catalogue_that_includes_nothing_is_answered_from() {
    for field in ["included_iops", "included_mib_per_s"] {
        let mut catalogue = Catalogue::latest();
        let gp3 = catalogue.classes.get_mut("gp3").unwrap();
        let included = match field {
            "included_iops" => gp3.included_iops.as_mut(),
            _ => gp3.included_mib_per_s.as_mut(),
        };
        included.unwrap().value = 0.0;
        let question = Question { region: "us-east-1".to_owned(), ..question("randread bs=16k 1000iops") };
        let decision = decide(&catalogue, &question).unwrap();
        assert!(decision.meets.iter().any(|choice| choice.volume.class == "gp3"), "{field}");
    }
}

#[test]
fn steps_end() {
    use super::candidate::steps;
    assert_eq!(steps(0.0, 5.0, 3.0), [0.0, 1.0, 2.0, 4.0, 5.0, 3.0, 4.0, 4.0, 4.0]);
    assert_eq!(steps(1e-300, 1e15, 0.0).len(), 52);
    assert_eq!(steps(1.0, f64::INFINITY, 0.0).len(), 65);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |question: Question| decide(&Catalogue::latest(), &question).unwrap_err().to_string();
    let good = || question("read 1MiB/s");
    assert!(refused(Question { data_gib: 0.0, ..good() }).contains("above 0"));
    assert!(refused(Question { hours_per_day: Some(25.0), ..good() }).contains("24 hours"));
    assert!(refused(Question { count_max: 0, ..good() }).contains("1 to 128"));
    assert!(
        refused(Question { region: "ap-northeast2".to_owned(), ..good() })
            .contains("did you mean `ap-northeast-2`?")
    );
    assert!(refused(Question { instance: Some("r7g.xlage".to_owned()), ..good() }).contains("did you mean"));
}

#[test]
fn waiting_grows_with_use_and_at_the_machine_once() {
    let queue = |count: u32, instance: Option<&str>| {
        let question =
            Question { instance: instance.map(str::to_owned), ..question("randread bs=128k 120MiB/s") };
        of(&decided(&question).meets, "gp3", count).queue_ms
    };
    assert!(queue(1, None) > 3.0 * queue(2, None), "96 % against 48 % of use");
    // The machine is one queue however many volumes there are behind it.
    let at_machine = |count: u32| queue(count, Some("r7g.xlarge")) - queue(count, None);
    assert!(at_machine(4) > 0.0 && (at_machine(4) - at_machine(16)).abs() < 1e-9);
}

#[test]
fn waiting_does_not_jump_at_the_limit() {
    let queue = |mib_per_s: f64| {
        let decision = decided(&question(&format!("randread bs=128k {mib_per_s}MiB/s")));
        let lists = [&decision.meets, &decision.while_credits_last];
        let one = |choice: &&Choice| choice.spec == "gp2:8TiB" && choice.count == 1;
        lists.into_iter().flatten().find(one).unwrap().queue_ms
    };
    // 8 TiB of gp2: 250 MiB/s, 0.5 ms for each of 64 requests.
    let most = 64.0 * 0.5;
    let at = [200.0, 240.0, 249.0, 249.9, 249.99, 249.9999, 250.0].map(queue);
    assert!(at.windows(2).all(|pair| pair[0] <= pair[1]), "{at:?}");
    assert!((at[6] - most).abs() < 1e-6 && (at[5] - most).abs() < 1e-6, "{at:?}");
    assert!(at[0] < 6.0, "{at:?}");
}

#[test]
fn reads_and_writes_have_sizes_of_their_own() {
    let need = need("randrw bs=16k,512k mix=75 100iops");
    assert_eq!((need.read_bytes, need.write_bytes), (16 << 10, 512 << 10));
    assert_eq!(need.bytes(), (0.75 * 16.0 + 0.25 * 512.0) * 1024.0);
    assert!((need.mib_per_s - 100.0 * 140.0 / 1024.0).abs() < 1e-9);
    // A read of gp3 is one unit of 256 KiB, a write two.
    assert_eq!(need.units(256 << 10), 0.75 + 0.5);
    assert_eq!(need.to_string(), "randrw bs=16k,512k mix=75 13.671875MiB/s");
    // st1 charges one of 1 MiB for each of either.
    let decision = decided(&question("randrw bs=16k,512k mix=75 320iops"));
    let st1 = of(&decision.meets, "st1", 1);
    assert!((st1.sustained_mib_per_s - 320.0 * 140.0 / 1024.0).abs() < 1e-9, "{st1:?}");
}

#[test]
fn a_peak_must_come_back_while_the_rest_is_served() {
    // 1 x 8 TiB of st1: 320 units a second always, 500 in a burst; 128 KiB each.
    let decision = decided(&question("randread bs=128k 35MiB/s peak=62.5MiB/s,4h"));
    let st1 = of(&decision.meets, "st1", 1);
    assert_eq!(st1.spec, "st1:8TiB");
    // 280 units in the other hours: 40 of 320 come back.
    assert!((st1.hours_per_day - 24.0 * 40.0 / 220.0).abs() < 1e-9, "{st1:?}");
    let longer = decided(&question("randread bs=128k 35MiB/s peak=62.5MiB/s,5h"));
    assert!(!longer.meets.iter().any(|choice| choice.spec == "st1:8TiB"));
    assert!(longer.while_credits_last.iter().any(|choice| choice.spec == "st1:8TiB"));
    // A rest that drains it leaves no hour.
    let always = decided(&question("randread bs=128k 41MiB/s peak=62.5MiB/s,1h"));
    assert!(!always.meets.iter().any(|choice| choice.spec == "st1:8TiB"));
    let error = |text: &str| text.parse::<Need>().unwrap_err().to_string();
    assert!(error("read 10MiB/s peak=5MiB/s,2h").contains("a peak of 5 MiB/s is not above"));
    assert!(error("read 10MiB/s peak=50MiB/s").contains("position 26: a peak is a rate and its hours"));
    assert!(error("read 10MiB/s peak=50MiB/s,2d").contains("position 28: no unit `d`"));
    assert!(error("read 10MiB/s peak=50MiB/s,24h").contains("position 27: a peak is shorter"));
    assert!(error("read 10MiB/s bs=4k,4q").contains("position 21: no unit `q`"));
    let both = Question { hours_per_day: Some(2.0), ..question("read 10MiB/s peak=50MiB/s,2h") };
    let refused = decide(&Catalogue::latest(), &both).unwrap_err().to_string();
    assert!(refused.contains("--hours-per-day goes with a need without `peak`"), "{refused}");
}

#[test]
fn copies_and_snapshots_are_priced() {
    let catalogue = Catalogue::latest();
    let ask = |copies: u32, snapshot_gib: Option<f64>| {
        let question = Question {
            region: "us-east-1".to_owned(),
            copies,
            snapshot_gib,
            ..question("read bs=1m 100MiB/s")
        };
        decide(&catalogue, &question).unwrap()
    };
    let (one, two) = (ask(1, None), ask(2, Some(1000.0)));
    let (a, b) = (of(&one.meets, "st1", 1), of(&two.meets, "st1", 1));
    assert!((b.usd_per_month.unwrap() - 2.0 * a.usd_per_month.unwrap() - 1000.0 * 0.05).abs() < 1e-9);
    assert!((b.yearly_loss_high.unwrap() - a.yearly_loss_high.unwrap().powi(2)).abs() < 1e-15);
    assert!(
        two.answer.contains("for each of 2 copies") && two.notes[1].contains("2 copies and 1000 GiB"),
        "{two:?}"
    );
    // A catalogue without the price does not make one up.
    let question = Question { snapshot_gib: Some(1.0), ..question("read bs=1m 100MiB/s") };
    let unknown = decided(&question);
    assert!(unknown.meets.is_empty());
    assert!(unknown.not_known[0].not_known[0].contains("no price of snapshots in ap-northeast-2"));
}

#[test]
fn io2_has_tiers() {
    let usd = |iops: f64| {
        let question =
            Question { region: "us-east-1".to_owned(), ..question(&format!("randread bs=4k {iops}iops")) };
        let decision = decide(&Catalogue::latest(), &question).unwrap();
        let io2 = |choice: &&Choice| choice.volume.class == "io2" && choice.count == 1;
        decision.meets.iter().find(io2).unwrap().usd_per_month.unwrap() - 8192.0 * 0.125
    };
    assert!((usd(32_000.0) - 32_000.0 * 0.065).abs() < 1e-6);
    assert!((usd(64_000.0) - 32_000.0 * (0.065 + 0.0455)).abs() < 1e-6);
    assert!((usd(100_000.0) - 32_000.0 * (0.065 + 0.0455) - 36_000.0 * 0.03185).abs() < 1e-6);
}

#[test]
fn disks_of_a_machine_are_listed_beside_the_volumes() {
    let ask = |text: &str, data_gib: f64, instance: Option<&str>| {
        let question = Question {
            region: "us-east-1".to_owned(),
            data_gib,
            instance: instance.map(str::to_owned),
            ..question(text)
        };
        decide(&Catalogue::latest(), &question).unwrap()
    };
    let decision = ask("randread bs=4k 90000iops", 800.0, None);
    let i4i = decision.local.iter().find(|local| local.machine == "i4i.xlarge").unwrap();
    assert!((i4i.usd_per_month.unwrap() - 0.343 * 730.0).abs() < 1e-9, "{i4i:?}");
    assert!((i4i.least_mib_per_s - 100_000.0 * 4.0 / 1024.0).abs() < 1e-9);
    assert!(decision.local.iter().all(|local| local.gib >= 800.0));
    // One that is there costs nothing more.
    let there = ask("randread bs=4k 9000iops", 800.0, Some("i4i.xlarge"));
    let i4i = there.local.iter().find(|local| local.machine == "i4i.xlarge").unwrap();
    assert_eq!((i4i.usd_per_month, i4i.price_evidence), (Some(0.0), None));
    // 800 GiB of writes: 55,000 of 4 KiB a second are too few.
    let writes = ask("randwrite bs=4k 90000iops", 800.0, None);
    assert!(writes.local.iter().all(|local| local.machine != "i4i.xlarge"));
}

#[test]
fn the_answer_names_what_to_buy() {
    let ask = |text: &str, instance: Option<&str>| {
        let question = Question {
            region: "eu-west-1".to_owned(),
            instance: instance.map(str::to_owned),
            ..question(text)
        };
        let decision = decide(&Catalogue::latest(), &question).unwrap();
        let korean = &decision.answer_korean;
        assert!(korean.contains(['구', '볼']) && !korean.contains("need"), "{korean}");
        decision.answer
    };
    let answer = ask("randread bs=128k 100MiB/s", Some("m7i.xlarge"));
    assert!(answer.starts_with("Buy ") && answer.contains(" a month, sustains "), "{answer}");
    let small = ask("randread bs=128k 300MiB/s", Some("m7i.xlarge"));
    assert!(small.contains("m7i.xlarge does not sustain this rate: m7i.4xlarge is the smallest"), "{small}");
    // t3.large, t3.xlarge and t3.2xlarge have the same limits.
    let tiny = ask("randread bs=128k 60MiB/s", Some("t3.nano"));
    assert!(tiny.contains("t3.large is the smallest"), "{tiny}");
    let daily = ask("randread bs=128k 1MiB/s peak=62MiB/s,1h", None);
    assert!(daily.contains("of every day, of which 1 are needed"), "{daily}");
    assert!(ask("write bs=1m 500000MiB/s", None).starts_with("No volumes in the catalogue are known"));
    // Its own disk does what no volume does behind the machine's limit.
    let mut own = Question { data_gib: 1024.0, ..question("randread bs=4k 100000iops") };
    (own.region, own.instance) = ("us-east-1".to_owned(), Some("i4i.4xlarge".to_owned()));
    let answer = decide(&Catalogue::latest(), &own).unwrap().answer;
    assert!(answer.contains("to meet this need. The disks of i4i.4xlarge itself do."), "{answer}");
}

#[test]
fn a_list_is_short_and_odds_are_percentages_whatever_is_asked() {
    for need in ["randread bs=16k 900000MiB/s", "randread bs=128k 40MiB/s"] {
        let question = Question { copies: 2, region: "us-east-1".to_owned(), ..question(need) };
        let lines = text(&decide(&Catalogue::latest(), &question).unwrap());
        let front = lines.iter().filter(|line| line.contains(" burst)  ")).count();
        assert!((4..=13).contains(&front), "{need}: {front}");
        assert!(lines.iter().all(|line| !line.contains("e-")), "{need}: {}", lines.join("\n"));
    }
    let question =
        Question { copies: 2, region: "us-east-1".to_owned(), ..question("randread bs=128k 40MiB/s") };
    let lines = text(&decide(&Catalogue::latest(), &question).unwrap());
    assert!(lines[0].ends_with("sustains 40 MiB/s of this pattern, no more than needed."), "{}", lines[0]);
    let line = |what: &str| lines.iter().find(|line| line.contains(what)).unwrap();
    assert!(
        line("1 x st1:8TiB:").ends_with("lost in a year 0.0001 % to 0.0004 %"),
        "{}",
        line("1 x st1:8TiB:")
    );
    assert!(line("1 x io2:8TiB").contains("lost in a year 0.00000001 %"), "{}", line("1 x io2:8TiB"));
}

#[derive(clap::Parser)]
struct Shell {
    #[command(flatten)]
    args: args::DecideArgs,
}

#[test]
fn arguments_are_checked_with_their_place() {
    let run = |need: &str, data: &str, catalogue: &str| {
        let words = ["lab", "--need", need, "--capacity", data, "--catalogue", catalogue];
        let shell = <Shell as clap::Parser>::try_parse_from(words).unwrap();
        args::run(&shell.args, true).unwrap_err().to_string()
    };
    assert!(
        run("randread bs=4k 1000iops", "8192", "ebs-2023").contains("--capacity 8192: a unit is missing")
    );
    assert!(
        run("randread bs=4k 1000iops", "8XB", "ebs-2023").contains("--capacity 8XB: \"8XB\" is not a size")
    );
    assert!(run("ranread bs=4k 1000iops", "8TiB", "ebs-2023").contains("did you mean `randread`?"));
    assert!(run("read 1MiB/s", "8TiB", "ebs-2022").contains("did you mean `ebs-2023`?"));
    assert!(run("read 1MiB/s", "8TiB", "./none.toml").contains("none.toml cannot be read"));
}
