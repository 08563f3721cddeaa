//! Parses the aggregations over the points of a field.

use serde_json::Value;

use super::{
    FieldIndex, FieldType, Grid, Kind, OfPoints, OrderKey, Params, Parser, RangeBound, Ranges, Shown, by,
};
use crate::Result;
use crate::agg::extent::Told;
use crate::filter::FieldRef;
use crate::geo::{Area, PointsAs};
use crate::language::geo;
use crate::language::json::At;

/// How many cells of a grid are shown where nobody says it, as in Elasticsearch.
const CELLS: usize = 10_000;
/// The lengths of geohashes and the zooms of tiles where nobody says them.
const GEOHASH_LENGTH: usize = 5;
const TILE_ZOOM: usize = 7;

/// The aggregations that are parsed here.
pub(super) const NAMES: [&str; 5] =
    ["geo_bounds", "geo_centroid", "geo_distance", "geohash_grid", "geotile_grid"];

impl Parser<'_> {
    /// One of [`NAMES`].
    pub(super) fn of_points(&mut self, word: &str, params: &mut Params) -> Result<Kind> {
        match word {
            "geo_bounds" => {
                let wraps = params.flag("wrap_longitude")?.unwrap_or(true);
                self.extent(params, Told::Bounds { wraps })
            }
            "geo_centroid" => self.extent(params, Told::Centroid),
            "geo_distance" => self.geo_distance(params),
            _ => self.grid(params, word == "geotile_grid"),
        }
    }

    fn extent(&mut self, params: &mut Params, told: Told) -> Result<Kind> {
        let field = self.points(params, PointsAs::Points)?;
        Ok(Kind::OfPoints(OfPoints { field, told }))
    }

    fn geo_distance(&mut self, params: &mut Params) -> Result<Kind> {
        let place = params.place().to_owned();
        let at = At::root(&place);
        let origin = params.take("origin").ok_or_else(|| params.error("[origin] is missing"))?;
        let from = vec![geo::point(&origin, &at.key("origin"))?];
        let unit = geo::unit_or_metres(params.take("unit").as_ref(), &at.key("unit"))?;
        params.ignore(&["distance_type"]);
        let field = self.points(params, PointsAs::Distances { from, unit })?;
        let decimal = self.decimal(params)?;
        let ranges = self.number_ranges(params, decimal.as_ref())?;
        let keyed = params.flag("keyed")?.unwrap_or(false);
        let missing = params.number("missing")?.map(RangeBound::Number);
        Ok(Kind::GeoDistance(Ranges { field, format: None, decimal, keyed, missing, ranges }))
    }

    fn grid(&mut self, params: &mut Params, has_tiles: bool) -> Result<Kind> {
        let of = self.cells(params, has_tiles)?;
        let field = self.points(params, of)?;
        let size = params.count("size")?.unwrap_or(CELLS);
        if size == 0 {
            return Err(params.error("[size] must be greater than 0"));
        }
        params.ignore(&["shard_size"]);
        // Of cells with as many documents the last comes first.
        let order = vec![by(OrderKey::Count, true), by(OrderKey::Key, true)];
        let shown = Shown { size, min_doc_count: 1, order, background: None };
        Ok(Kind::Grid(Grid { field, shown, has_tiles }))
    }

    /// The cells of a grid, by its `precision` and `bounds`.
    pub(super) fn cells(&self, params: &mut Params, has_tiles: bool) -> Result<PointsAs> {
        let within = self.area(params)?;
        let precision = match params.take("precision") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let whole =
                    super::real(&value).filter(|real| real.fract() == 0.0 && (0.0..=64.0).contains(real));
                Some(
                    whole
                        .ok_or_else(|| params.error(format!("[precision] is a whole number, not {value}")))?,
                )
            }
        };
        let precision = precision.map(|precision| precision as usize);
        let cells = match has_tiles {
            true => PointsAs::tiles(precision.unwrap_or(TILE_ZOOM), within),
            false => PointsAs::geohashes(precision.unwrap_or(GEOHASH_LENGTH), within),
        };
        let (least, most) = if has_tiles { (0, 29) } else { (1, 12) };
        cells.ok_or_else(|| {
            let kind = if has_tiles { "geotile_grid" } else { "geohash" };
            let precision = precision.unwrap_or_default();
            let what =
                format!("Invalid {kind} precision of {precision}. Must be between {least} and {most}.");
            params.error(what)
        })
    }

    fn area(&self, params: &mut Params) -> Result<Option<Area>> {
        let place = params.place().to_owned();
        let bounds = params.take("bounds").filter(|bounds| !bounds.is_null());
        bounds.map(|bounds| geo::area(&bounds, &At::root(&place).key("bounds"))).transpose()
    }

    /// The field that `field` names, by its points.
    pub(super) fn points(&mut self, params: &mut Params, of: PointsAs) -> Result<FieldIndex> {
        let name = params.text("field")?.ok_or_else(|| params.without_field())?;
        geo::check_type(self.context.mapping, &name).map_err(|ty| {
            params.error(format!(
                "Field [{name}] of type [{ty}] is not supported for aggregation [{}]",
                params.word()
            ))
        })?;
        Ok(self.index_of(FieldRef::points(self.context.all, &name, of)))
    }

    /// A field as whoever names it alone means it: a declared point by its points.
    pub(super) fn named(&self, name: &str) -> FieldRef {
        match self.context.mapping.type_of(name) {
            Some(FieldType::GeoPoint) => FieldRef::points(self.context.all, name, PointsAs::Points),
            _ => FieldRef::in_any(self.context.all, name),
        }
    }
}
