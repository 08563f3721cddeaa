//! Shapes that queries ask for, and which points are in them.

use serde::{Deserialize, Serialize};

use super::{Area, Point};

/// A shape on the earth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Shape {
    Point(Point),
    Area(Area),
    /// The points that are no further away.
    Circle {
        centre: Point,
        metres: f64,
    },
    /// Rings of at least three points each: what is inside of an odd number of them, and their edges. Between two points
    /// an edge is straight in degrees, and never crosses the date line.
    Polygon(Vec<Vec<Point>>),
    AnyOf(#[serde(deserialize_with = "crate::nesting::deeper")] Vec<Shape>),
}

/// How the points of a document have to be to a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// One of them is in it.
    Intersects,
    /// All of them are.
    Within,
    /// None of them is.
    Disjoint,
}

impl Shape {
    pub(crate) fn contains(&self, point: Point) -> bool {
        match self {
            Shape::Point(own) => own.lat == point.lat && own.lon == point.lon,
            Shape::Area(area) => area.contains(point),
            Shape::Circle { centre, metres } => centre.metres_to(point) <= *metres,
            Shape::Polygon(rings) => {
                rings.iter().any(|ring| edges(ring).any(|edge| is_on(edge, point)))
                    || rings.iter().filter(|ring| is_inside(ring, point)).count() % 2 == 1
            }
            Shape::AnyOf(shapes) => shapes.iter().any(|shape| shape.contains(point)),
        }
    }

    /// An area that has all of it; none where that is not known.
    pub(crate) fn area(&self) -> Option<Area> {
        match self {
            Shape::Point(point) => Some(Area { north_west: *point, south_east: *point }),
            Shape::Area(area) => Some(*area),
            Shape::Circle { centre, metres } => {
                // A little more than the distance, for what rounding takes.
                let degrees = (metres / super::EARTH_RADIUS_M).to_degrees() * 1.000_001 + 1e-6;
                let north = (centre.lat + degrees).min(90.0);
                let south = (centre.lat - degrees).max(-90.0);
                Area::new(north, -180.0, south, 180.0)
            }
            Shape::Polygon(rings) => {
                let points = || rings.iter().flatten();
                let ends = |of: fn(&Point) -> f64| {
                    let least = points().map(of).fold(f64::INFINITY, f64::min);
                    (least, points().map(of).fold(f64::NEG_INFINITY, f64::max))
                };
                let ((south, north), (west, east)) = (ends(|point| point.lat), ends(|point| point.lon));
                Area::new(north, west, south, east)
            }
            Shape::AnyOf(_) => None,
        }
    }

    /// The polygon of these rings; why they make none otherwise.
    pub(crate) fn polygon(mut rings: Vec<Vec<Point>>) -> Result<Shape, String> {
        if rings.is_empty() {
            return Err("a polygon has a ring of points".to_owned());
        }
        for ring in &mut rings {
            if ring.len() > 1 && ring.first() == ring.last() {
                ring.pop();
            }
            if ring.len() < 3 {
                return Err("a ring of a polygon has at least three different points".to_owned());
            }
            if edges(ring).any(|(from, to)| (from.lon - to.lon).abs() > 180.0) {
                return Err("an edge of a polygon spans more than 180 degrees: where it is to cross the date line, split it \
                            there into two polygons"
                    .to_owned());
            }
        }
        Ok(Shape::Polygon(rings))
    }

    /// The shape that a text writes as WKT; none where it writes none of those that are read.
    pub(crate) fn of_wkt(text: &str) -> Option<Result<Shape, String>> {
        if let Some(body) = wkt_body(text, "BBOX").or_else(|| wkt_body(text, "ENVELOPE")) {
            // West, east, north, south.
            let numbers: Vec<f64> =
                body.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
            let [west, east, north, south] = numbers.as_slice() else { return None };
            return Some(Ok(Shape::Area(Area::new(*north, *west, *south, *east)?)));
        }
        if let Some(body) = wkt_body(text, "POLYGON") {
            return Some(Shape::polygon(rings(body)?));
        }
        if let Some(body) = wkt_body(text, "MULTIPOLYGON") {
            let all = groups(body)?.into_iter().map(rings).collect::<Option<Vec<_>>>()?;
            return Some(all.into_iter().map(Shape::polygon).collect::<Result<_, _>>().map(Shape::AnyOf));
        }
        Point::of_text(text).map(|point| Ok(Shape::Point(point)))
    }
}

impl Relation {
    /// Whether it holds for a document with these points, of which there is at least one.
    pub(crate) fn holds(self, shape: &Shape, points: &[Point]) -> bool {
        let mut inside = points.iter().map(|point| shape.contains(*point));
        match self {
            _ if points.is_empty() => false,
            Relation::Intersects => inside.any(|inside| inside),
            Relation::Within => inside.all(|inside| inside),
            Relation::Disjoint => !inside.any(|inside| inside),
        }
    }
}

fn edges(ring: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    ring.iter().copied().zip(ring.iter().copied().cycle().skip(1))
}

/// Whether an odd number of edges is east of the point.
fn is_inside(ring: &[Point], point: Point) -> bool {
    let crosses = |(from, to): &(Point, Point)| {
        (from.lat > point.lat) != (to.lat > point.lat)
            && point.lon < (to.lon - from.lon) * (point.lat - from.lat) / (to.lat - from.lat) + from.lon
    };
    edges(ring).filter(crosses).count() % 2 == 1
}

fn is_on((from, to): (Point, Point), point: Point) -> bool {
    let between = |a: f64, b: f64, value: f64| a.min(b) <= value && value <= a.max(b);
    between(from.lat, to.lat, point.lat)
        && between(from.lon, to.lon, point.lon)
        && (to.lon - from.lon) * (point.lat - from.lat) == (point.lon - from.lon) * (to.lat - from.lat)
}

/// What is between the parentheses after a word of WKT.
pub(super) fn wkt_body<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (start, rest) = text.trim().split_once('(')?;
    start.trim().eq_ignore_ascii_case(word).then(|| rest.strip_suffix(')'))?
}

/// What is between each of the outer parentheses of a list.
fn groups(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut found) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                depth += 1;
                start = if depth == 1 { at + 1 } else { start };
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    found.push(text.get(start..at)?);
                }
            }
            _ => {}
        }
    }
    (depth == 0 && !found.is_empty()).then_some(found)
}

fn rings(text: &str) -> Option<Vec<Vec<Point>>> {
    let point = |text: &str| Point::of_text(&format!("POINT ({text})"));
    groups(text)?.into_iter().map(|ring| ring.split(',').map(point).collect()).collect()
}
