//! Where points are: the area that has all of them, and their middle.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::keys::FieldIndex;
use super::metric::{Number, Sum};
use crate::geo::Point;

/// `geo_bounds` and `geo_centroid`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct OfPoints {
    pub(super) field: FieldIndex,
    pub(super) told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Told {
    /// The area; it may cross the date line where it `wraps`.
    Bounds { wraps: bool },
    /// The average of the latitudes and that of the longitudes.
    Centroid,
}

/// What is known of some points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Extent {
    count: u64,
    lat_sum: Sum,
    lon_sum: Sum,
    lat: Option<Span>,
    /// Of the longitudes that are negative, and of the others.
    west: Option<Span>,
    east: Option<Span>,
}

/// From the least to the greatest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Span(f64, f64);

impl Span {
    fn join(of: &mut Option<Span>, other: Option<Span>) {
        *of = match (*of, other) {
            (Some(a), Some(b)) => Some(Span(a.0.min(b.0), a.1.max(b.1))),
            (one, None) | (None, one) => one,
        };
    }
}

/// North, west, south and east.
struct Sides([f64; 4]);

impl Extent {
    pub(super) fn add(&mut self, point: Point) {
        let (lat, lon) = (Some(Span(point.lat, point.lat)), Some(Span(point.lon, point.lon)));
        self.count += 1;
        self.lat_sum.add(Number::Double(point.lat));
        self.lon_sum.add(Number::Double(point.lon));
        Span::join(&mut self.lat, lat);
        Span::join(if point.lon < 0.0 { &mut self.west } else { &mut self.east }, lon);
    }

    pub(super) fn merge(&mut self, other: &Extent) {
        self.count += other.count;
        self.lat_sum.merge(&other.lat_sum);
        self.lon_sum.merge(&other.lon_sum);
        Span::join(&mut self.lat, other.lat);
        Span::join(&mut self.west, other.west);
        Span::join(&mut self.east, other.east);
    }

    fn sides(&self, wraps: bool) -> Option<Sides> {
        let Span(south, north) = self.lat?;
        let (west, east) = match (self.west, self.east) {
            (Some(one), None) | (None, Some(one)) => (one.0, one.1),
            (Some(negative), Some(positive)) => {
                let (plain, across) = (positive.1 - negative.0, (180.0 - positive.0) + (negative.1 + 180.0));
                match wraps && across < plain {
                    true => (positive.0, negative.1),
                    false => (negative.0, positive.1),
                }
            }
            (None, None) => return None,
        };
        Some(Sides([north, west, south, east]))
    }

    fn centroid(&self) -> Option<Point> {
        let count = self.count as f64;
        (self.count > 0)
            .then(|| Point { lat: self.lat_sum.value() / count, lon: self.lon_sum.value() / count })
    }
}

impl OfPoints {
    /// The names of its numbers.
    pub(super) fn has(&self, name: Option<&str>) -> bool {
        let known: &[&str] = match self.told {
            Told::Bounds { .. } => &["top", "left", "bottom", "right"],
            Told::Centroid => &["count", "lat", "lon", "location.lat", "location.lon"],
        };
        name.is_some_and(|name| known.contains(&name))
    }

    pub(super) fn value(&self, extent: &Extent, name: Option<&str>) -> Option<f64> {
        match self.told {
            Told::Bounds { wraps } => {
                let Sides(sides) = extent.sides(wraps)?;
                let at = ["top", "left", "bottom", "right"].iter().position(|side| Some(*side) == name)?;
                sides.get(at).copied()
            }
            Told::Centroid => match name? {
                "count" => Some(extent.count as f64),
                name if name.ends_with("lat") => extent.centroid().map(|point| point.lat),
                _ => extent.centroid().map(|point| point.lon),
            },
        }
    }

    pub(super) fn json(&self, extent: &Extent) -> Map<String, Value> {
        let place = |lat: f64, lon: f64| json!({ "lat": lat, "lon": lon });
        let mut told = Map::new();
        match self.told {
            Told::Bounds { wraps } => {
                if let Some(Sides([north, west, south, east])) = extent.sides(wraps) {
                    let bounds =
                        json!({ "top_left": place(north, west), "bottom_right": place(south, east) });
                    told.insert("bounds".to_owned(), bounds);
                }
            }
            Told::Centroid => {
                let centroid = extent.centroid();
                told.extend(centroid.map(|at| ("location".to_owned(), place(at.lat, at.lon))));
                told.insert("count".to_owned(), json!(extent.count));
            }
        }
        told
    }
}
