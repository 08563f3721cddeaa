//! Documents by the places of their points.
//!
//! Where all points are objects of a latitude and a longitude, pages whose bounds are beyond those of a shape are not read.

use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::FieldRef;
use crate::geo::{Area, Relation, Shape};
use crate::read::fields;
use crate::read::points;
use crate::read::view::View;
use crate::select::{Rows, all, narrow};

impl View<'_> {
    /// The rows whose points are so to a shape.
    pub(super) async fn points(
        self,
        field: &FieldRef,
        shape: &Shape,
        relation: Relation,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let with_value = self.exists(field).await?.bitmap(self.split().rows());
        let mut rows = narrow(with_value, among);
        if relation == Relation::Intersects
            && let Some(area) = shape.area()
        {
            rows = self.in_pages_of(field, &area, rows).await?;
        }
        let points = points::points(self, field, &rows).await?;
        let found = rows.iter().zip(points.rows()).filter(|(_, points)| relation.holds(shape, points));
        Ok(Rows::Some(found.map(|(row, _)| row).collect()))
    }

    /// Those of `rows` that may have a point in an area, by the bounds of pages.
    async fn in_pages_of(self, field: &FieldRef, area: &Area, rows: RoaringBitmap) -> Result<RoaringBitmap> {
        let view = self;
        let Some(degrees) = points::degrees_of(view, field)? else { return Ok(rows) };
        let latitudes = vec![(area.south_east.lat, area.north_west.lat)];
        // The date line has two longitudes.
        let mut longitudes: Vec<(f64, f64)> = area.longitudes().collect();
        longitudes.extend([(-180.0, -180.0), (180.0, 180.0)]);
        let mut left = rows;
        for (readings, wanted) in degrees.iter().zip([latitudes, longitudes]) {
            let overlaps =
                |least: f64, most: f64| wanted.iter().any(|(from, to)| least <= *to && *from <= most);
            let mut of_part = RoaringBitmap::new();
            for reading in readings {
                if reading.dynamic {
                    of_part |= narrow(all(self.split().rows()), Some(&left));
                    continue;
                }
                let columns = fields::columns_of(reading);
                self.know_pages(&columns.iter().map(String::as_str).collect::<Vec<_>>()).await?;
                of_part |= fields::rows_in_pages(
                    self,
                    reading,
                    Some(&left),
                    |least, most| overlaps(least as f64, most as f64),
                    overlaps,
                );
            }
            left = of_part;
        }
        Ok(left)
    }
}
