//! Scales and marks of the charts. Positions are percentages, so that a drawing stretches with the page and
//! its marks keep their shape; labels are HTML.

use std::fmt::Write as _;

use super::text::{escape, round};

/// From values to percentages of the width.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    /// Where lines and labels are.
    pub(super) ticks: Vec<f64>,
    /// Labels of the ticks that are no numbers.
    names: Vec<String>,
}

impl Scale {
    /// For sizes: from zero, in powers of ten where they span more than two of them.
    pub(super) fn of_sizes(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = ends(values);
        if least > 0.0 && most / least > 100.0 {
            return Scale::decades(least, most);
        }
        let (least, most) = (least.min(0.0), most.max(0.0));
        let span = if most > least { most - least } else { 1.0 };
        let step = nice_step(span / 4.0);
        let (first, last) = ((least / step).floor(), ((least + span) / step).ceil());
        let ticks = (0..=8).map(|at| (first + f64::from(at)) * step).take_while(|tick| *tick <= last * step);
        Scale {
            from: first * step,
            to: last * step,
            logarithmic: false,
            ticks: ticks.collect(),
            names: Vec::new(),
        }
    }

    /// For names at equal distances: the first is at 0, the next at 1.
    pub(super) fn of_names(names: &[&str]) -> Scale {
        let last = names.len().max(2) as f64 - 1.0;
        let ticks = (0..names.len()).map(|at| at as f64).collect();
        let names = names.iter().map(|name| escape(name)).collect();
        Scale { from: 0.0, to: last, logarithmic: false, ticks, names }
    }

    fn decades(least: f64, most: f64) -> Scale {
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let every = ((last - first) as usize).div_ceil(5).max(1);
        let ticks = (first..=last).step_by(every).map(|power| 10_f64.powi(power)).collect();
        Scale { from: 10_f64.powi(first), to: 10_f64.powi(last), logarithmic: true, ticks, names: Vec::new() }
    }

    /// For ratios: logarithmic, 1 always on it.
    pub(super) fn of_ratios(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = ends(values.filter(|ratio| *ratio > 0.0).chain([1.0]));
        let (from, to) = ((least / 1.05).max(1e-6), (most * 1.05).min(1e6));
        let mut scale = Scale {
            from: from.min(0.95),
            to: to.max(1.05),
            logarithmic: true,
            ticks: vec![1.0],
            names: Vec::new(),
        };
        // Outwards from 1, each label with room of its own.
        for tick in [1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4, 1e5] {
            scale.try_tick(tick);
        }
        for tick in [0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-5] {
            scale.try_tick(tick);
        }
        scale
    }

    fn try_tick(&mut self, tick: f64) {
        let Some(at) = self.place(tick).filter(|at| (3.0..=97.0).contains(at)) else { return };
        if self.ticks.iter().filter_map(|other| self.place(*other)).all(|other| (at - other).abs() >= 13.0) {
            self.ticks.push(tick);
        }
    }

    /// The percentage where `value` is; `None` for what is off the scale.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let part = if self.logarithmic {
            (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        (part.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&part)).then(|| (part * 100.0).clamp(0.0, 100.0))
    }

    /// The labels below a chart.
    pub(super) fn axis(&self) -> String {
        let mut axis = String::from("<div class=axis aria-hidden=true>");
        for (index, tick) in self.ticks.iter().enumerate() {
            let Some(at) = self.place(*tick) else { continue };
            let label = self.names.get(index).cloned().unwrap_or_else(|| round(*tick));
            // Labels at the ends lean inwards.
            let lean = if at < 2.0 {
                " class=left"
            } else if at > 98.0 {
                " class=right"
            } else {
                ""
            };
            let _ = write!(axis, "<span{lean} style=\"left:{at:.2}%\">{label}</span>");
        }
        axis.push_str("</div>");
        axis
    }
}

/// A strip on which one row's marks are drawn.
pub(super) struct Strip<'a> {
    scale: &'a Scale,
    svg: String,
}

impl<'a> Strip<'a> {
    pub(super) fn new(scale: &'a Scale) -> Strip<'a> {
        let mut strip = Strip { scale, svg: String::from("<svg class=strip aria-hidden=true>") };
        for tick in &scale.ticks {
            strip.vertical("grid", *tick);
        }
        strip
    }

    /// A line across.
    pub(super) fn vertical(&mut self, class: &str, value: f64) {
        if let Some(at) = self.scale.place(value) {
            let _ = write!(self.svg, "<line class={class} x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=0 y2=22 />");
        }
    }

    /// A shaded range; an end that is off the scale is the scale's.
    pub(super) fn band(&mut self, low: f64, high: f64) {
        let low = self.scale.place(low.max(self.scale.from)).unwrap_or(0.0);
        let high = self.scale.place(high.min(self.scale.to)).unwrap_or(100.0);
        if low < high {
            let _ = write!(
                self.svg,
                "<rect class=band x=\"{low:.2}%\" width=\"{:.2}%\" y=0 height=22 />",
                high - low
            );
        }
    }

    pub(super) fn interval(&mut self, low: f64, high: f64) {
        if let (Some(low), Some(high)) = (self.scale.place(low), self.scale.place(high)) {
            let _ =
                write!(self.svg, "<line class=interval x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=11 y2=11 />");
        }
    }

    pub(super) fn dot(&mut self, class: &str, value: f64, radius: u32) {
        if let Some(at) = self.scale.place(value) {
            let _ = write!(self.svg, "<circle class={class} cx=\"{at:.2}%\" cy=11 r={radius} />");
        }
    }

    /// A diamond: what the model says.
    pub(super) fn model(&mut self, value: f64) {
        if let Some(at) = self.scale.place(value) {
            let _ = write!(self.svg, "<svg x=\"{at:.2}%\" overflow=visible>{MODEL}</svg>");
        }
    }

    /// A bar across: what was published.
    pub(super) fn published(&mut self, value: f64) {
        if let Some(at) = self.scale.place(value) {
            let _ = write!(self.svg, "<svg x=\"{at:.2}%\" overflow=visible>{PUBLISHED}</svg>");
        }
    }

    pub(super) fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// A plane on which points and lines are drawn.
pub(super) struct Plane<'a> {
    x: &'a Scale,
    y: &'a Scale,
    html: String,
}

impl<'a> Plane<'a> {
    pub(super) fn new(x: &'a Scale, y: &'a Scale) -> Plane<'a> {
        let mut html = String::from("<div class=plot><svg aria-hidden=true>");
        for at in y.ticks.iter().filter_map(|tick| y.place(*tick)).map(|at| 100.0 - at) {
            let _ = write!(html, "<line class=grid x1=0 x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\" />");
        }
        Plane { x, y, html }
    }

    /// Percentages from the left and from the top.
    pub(super) fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, 100.0 - self.y.place(y)?))
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        if let (Some((x, y)), Some((right, bottom))) = (self.place(from), self.place(to)) {
            let _ = write!(
                self.html,
                "<line class={class} x1=\"{x:.2}%\" y1=\"{y:.2}%\" x2=\"{right:.2}%\" y2=\"{bottom:.2}%\" />"
            );
        }
    }

    /// Straight lines from each point to the next.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        for pair in points.windows(2) {
            self.line(class, pair[0], pair[1]);
        }
    }

    pub(super) fn dot(&mut self, class: &str, point: (f64, f64), radius: u32) {
        if let Some((x, y)) = self.place(point) {
            let _ = write!(self.html, "<circle class={class} cx=\"{x:.2}%\" cy=\"{y:.2}%\" r={radius} />");
        }
    }

    /// The drawing with the labels of both axes; `labels` are HTML, each at a point.
    pub(super) fn end(self, labels: &[(f64, f64, String)]) -> String {
        let places: Vec<_> =
            labels.iter().filter_map(|(x, y, text)| Some((self.place((*x, *y))?, text))).collect();
        let mut html = self.html;
        html.push_str("</svg>");
        for tick in &self.y.ticks {
            if let Some(at) = self.y.place(*tick) {
                let _ =
                    write!(html, "<span class=y style=\"top:{:.2}%\">{}</span>", 100.0 - at, round(*tick));
            }
        }
        for ((x, y), text) in places {
            let _ = write!(html, "<b style=\"left:{x:.2}%;top:{y:.2}%\">{text}</b>");
        }
        let _ = write!(html, "</div>{}", self.x.axis());
        html
    }
}

/// The mark of the model, around x = 0.
pub(super) const MODEL: &str = "<path class=model d=\"M-6 11L0 5L6 11L0 17Z\"/>";
/// The mark of what was published, around x = 0.
pub(super) const PUBLISHED: &str = "<path class=published d=\"M-2 2H2V20H-2Z\"/>";

/// The least and the largest finite value; 0 and 0 without any.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite() && value.abs() < 1e300)
        .fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
        })
        .unwrap_or((0.0, 0.0))
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(f64::MIN_POSITIVE * 1e20).log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|nice| nice * power)
        .find(|nice| *nice >= step)
        .unwrap_or(10.0 * power)
}
