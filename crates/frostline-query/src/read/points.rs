//! The points of a field, and what is made of them, as columns.
//!
//! - Points have no columns of their own. Where a document writes one as an object of `lat` and `lon`, as a list of two
//!   numbers with fractions, or as texts, the columns of these tell it. Where columns cannot tell (several objects, whose
//!   numbers may be in columns of different types, and other spellings) the document does.
//! - So every spelling is read, whether or not a mapping declares the field, and whatever split it is in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, Int64Builder, StringArray,
    StringBuilder,
};
use frostline_split::{SplitField, TextAs, ValueType, Wanted};
use roaring::RoaringBitmap;

use crate::filter::FieldRef;
use crate::geo::{Point, PointsAs, geohash_within, tile_within};
use crate::read::fields::{self, FieldValue};
use crate::read::per_row::PerRow;
use crate::read::view::View;
use crate::{Error, Result};

/// The points of some rows, in their order.
pub(crate) type Points = PerRow<Point>;

/// What is made of the points of these rows: an array of one value a row, or of lists where a row has several.
pub(crate) async fn values(
    view: View<'_>,
    field: &FieldRef,
    of: &PointsAs,
    rows: &RoaringBitmap,
) -> Result<ArrayRef> {
    let points = points(view, field, rows).await?;
    let texts = |text: &dyn Fn(Point) -> Option<String>| -> ArrayRef {
        match points.are_single() {
            true => Arc::new(points.rows().map(|row| text(*row.first()?)).collect::<StringArray>()),
            false => points.lists(StringBuilder::new(), |builder, point| {
                text(*point).into_iter().for_each(|text| builder.append_value(text));
            }),
        }
    };
    Ok(match of {
        PointsAs::Points => texts(&|point| Some(point.text())),
        PointsAs::Geohashes { length, within } => {
            texts(&|point| geohash_within(point, *length, within.as_ref()))
        }
        PointsAs::Tiles { zoom, within } => {
            let tile = |point| tile_within(point, *zoom, within.as_ref());
            match points.are_single() {
                true => Arc::new(points.rows().map(|row| tile(*row.first()?)).collect::<Int64Array>()),
                false => points.lists(Int64Builder::new(), |builder, point| {
                    tile(*point).into_iter().for_each(|tile| builder.append_value(tile));
                }),
            }
        }
        PointsAs::Distances { from, unit } => {
            let distance = |point: Point, from: &Point| from.metres_to(point) / unit.metres();
            match (from.as_slice(), points.are_single()) {
                ([from], true) => {
                    let distances = points.rows().map(|row| Some(distance(*row.first()?, from)));
                    Arc::new(distances.collect::<Float64Array>())
                }
                (all, _) => points.lists(Float64Builder::new(), |builder, point| {
                    all.iter().for_each(|from| builder.append_value(distance(*point, from)));
                }),
            }
        }
    })
}

/// The points of these rows.
pub(crate) async fn points(view: View<'_>, field: &FieldRef, rows: &RoaringBitmap) -> Result<Points> {
    view.know_fields(&[field]).await?;
    let mut points = Points::default();
    match field.paths() {
        [] => rows.iter().for_each(|_| points.push(&[])),
        [path] => {
            let parts = Parts::of(view, &path.path, rows).await?;
            let others = from_documents(view, &[&path.path], &parts.left(rows)).await?;
            let mut others = others.rows();
            for part in &parts.of_rows {
                match part.told() {
                    Told::Texts => points.push(parts.texts_of(part)),
                    Told::One(point) => points.push(point.as_slice()),
                    Told::Nothing => points.push(others.next().unwrap_or_default()),
                }
            }
        }
        several => {
            // Rarely is a name that of several paths: an alias that is a field as well.
            let paths: Vec<&str> = several.iter().map(|path| path.path.as_str()).collect();
            points = from_documents(view, &paths, rows).await?;
        }
    }
    if points.len() as u64 != rows.len() {
        return Err(Error::internal("rows and their points do not belong together"));
    }
    Ok(points)
}

/// Whether columns alone tell the points of each row, and only in objects of `lat` and `lon`: the readings of these.
pub(crate) fn degrees_of<'s>(view: View<'s>, field: &FieldRef) -> Result<Option<[Vec<&'s SplitField>; 2]>> {
    let [path] = field.paths() else { return Ok(None) };
    let mut found = [Vec::new(), Vec::new()];
    for (reading, place) in readings_of(view, &path.path)? {
        match place {
            Place::Lat if is_plain(reading) => found[0].push(reading),
            Place::Lon if is_plain(reading) => found[1].push(reading),
            _ => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Where in a point a value is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Lat,
    Lon,
    /// It is itself a part of the point, or all of it.
    Itself,
    Elsewhere,
}

fn readings_of<'s>(view: View<'s>, path: &str) -> Result<Vec<(&'s SplitField, Place)>> {
    let split: &'s frostline_split::Split = &view.open.split;
    let mut readings = Vec::new();
    for wanted in [Wanted::Path(path), Wanted::Below(path)] {
        readings.extend(split.find(wanted)?);
    }
    let place = |reading: &SplitField| match reading.path.strip_prefix(path) {
        Some("") => Place::Itself,
        Some(".lat") => Place::Lat,
        Some(".lon") => Place::Lon,
        _ => Place::Elsewhere,
    };
    Ok(readings.into_iter().map(|reading| (reading, place(reading))).collect())
}

fn is_plain(reading: &SplitField) -> bool {
    matches!(reading.ty, ValueType::Long | ValueType::Double)
}

/// What columns say of the points of rows.
struct Parts {
    of_rows: Vec<Part>,
    /// The points that are texts, each with the place of its row.
    texts: Vec<(u32, Point)>,
    points_of_texts: Vec<Point>,
}

/// The same of one row.
#[derive(Clone, Copy, Default)]
struct Part {
    lat: Option<f64>,
    lon: Option<f64>,
    numbers: [Option<f64>; 2],
    /// Where its points of texts start, and how many texts it has.
    first_text: u32,
    texts: u32,
    /// Its points that are texts.
    points: u32,
    /// Columns cannot tell.
    is_other: bool,
}

enum Told {
    Texts,
    One(Option<Point>),
    Nothing,
}

impl Part {
    fn told(&self) -> Told {
        let Part { lat, lon, numbers: [first, second], texts, is_other, .. } = *self;
        match (lat, lon, first, second, texts) {
            _ if is_other => Told::Nothing,
            (None, None, None, None, _) => Told::Texts,
            (Some(lat), Some(lon), None, None, 0) => Told::One(Point::new(lat, lon)),
            (None, None, Some(lon), Some(lat), 0) => Told::One(Point::new(lat, lon)),
            _ => Told::Nothing,
        }
    }

    /// One more value of those of which there is at most one.
    fn put(of: &mut Option<f64>, value: f64, is_other: &mut bool) {
        *is_other |= of.replace(value).is_some();
    }
}

impl Parts {
    async fn of(view: View<'_>, path: &str, rows: &RoaringBitmap) -> Result<Parts> {
        let mut parts = Parts {
            of_rows: vec![Part::default(); rows.len() as usize],
            texts: Vec::new(),
            points_of_texts: Vec::new(),
        };
        for (reading, place) in readings_of(view, path)? {
            let tells = match place {
                Place::Elsewhere => false,
                Place::Itself => matches!(reading.ty, ValueType::Double | ValueType::Text),
                Place::Lat | Place::Lon => is_plain(reading),
            };
            let mut first = 0;
            for (count, arrays) in fields::read_reading(view, reading, rows, TextAs::Plain).await? {
                let places: Vec<u32> = (first..).take(count).collect();
                first += count as u32;
                for array in arrays {
                    match tells {
                        true => fields::each_value(&array, &places, &mut |at, value| {
                            parts.add(at as usize, place, &value);
                        }),
                        false => parts.note_others(&array, &places),
                    }
                }
            }
        }
        parts.texts.sort_by_key(|(row, _)| *row);
        for (row, point) in std::mem::take(&mut parts.texts) {
            let part = &mut parts.of_rows[row as usize];
            if part.points == 0 {
                part.first_text = parts.points_of_texts.len() as u32;
            }
            part.points += 1;
            parts.points_of_texts.push(point);
        }
        Ok(parts)
    }

    fn add(&mut self, at: usize, place: Place, value: &FieldValue<'_>) {
        let Some(part) = self.of_rows.get_mut(at) else { return };
        let number = match value {
            FieldValue::Long(number) => Some(*number as f64),
            FieldValue::Double(number) => Some(*number),
            FieldValue::Big(_) | FieldValue::Text(_) => None,
        };
        match (place, number, value) {
            (Place::Lat, Some(number), _) => Part::put(&mut part.lat, number, &mut part.is_other),
            (Place::Lon, Some(number), _) => Part::put(&mut part.lon, number, &mut part.is_other),
            (Place::Itself, Some(number), _) => match &mut part.numbers {
                [first @ None, _] => *first = Some(number),
                [_, second] => Part::put(second, number, &mut part.is_other),
            },
            (Place::Itself, None, FieldValue::Text(text)) => {
                part.texts += 1;
                self.texts.extend(Point::of_text(text).map(|point| (at as u32, point)));
            }
            _ => part.is_other = true,
        }
    }

    /// Notes the rows that have a value which says nothing by itself.
    fn note_others(&mut self, array: &ArrayRef, places: &[u32]) {
        let lists = array.as_list_opt::<i32>();
        let is_empty = |at: usize| lists.is_some_and(|lists| lists.value_length(at) == 0);
        for (at, place) in places.iter().enumerate().filter(|(at, _)| array.is_valid(*at)) {
            if let Some(part) = self.of_rows.get_mut(*place as usize).filter(|_| !is_empty(at)) {
                part.is_other = true;
            }
        }
    }

    fn texts_of(&self, part: &Part) -> &[Point] {
        let start = part.first_text as usize;
        self.points_of_texts.get(start..start + part.points as usize).unwrap_or_default()
    }

    /// The rows that documents have to tell.
    fn left(&self, rows: &RoaringBitmap) -> RoaringBitmap {
        let left = rows.iter().zip(&self.of_rows).filter(|(_, part)| matches!(part.told(), Told::Nothing));
        left.map(|(row, _)| row).collect()
    }
}

async fn from_documents(view: View<'_>, paths: &[&str], rows: &RoaringBitmap) -> Result<Points> {
    PerRow::from_documents(view, paths, rows, |json, all| all.extend(Point::all_of(&json.to_value()))).await
}
