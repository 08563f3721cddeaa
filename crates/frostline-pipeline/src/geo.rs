//! Processors that look addresses up: `geoip` and `ip_location`.
//!
//! Databases are those of MaxMind's format, which the caller reads and hands out by the names of their files. Of a record
//! only the members that are asked for are read, so that a damaged one cannot take more than its file. A document whose
//! database is not there gets a tag that says so, and is stored.

use std::net::IpAddr;

use frostline_base::{Error, Result};
use maxminddb::{LookupResult, MaxMindDbError, PathElement, Reader, path};
use serde_json::{Value as Json, json};

use crate::document::{Document, Done, Path, READ, Stop, failure, kind, shown, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::value::Value;

/// A database of addresses.
#[derive(Debug)]
pub struct Addresses {
    reader: Reader<Vec<u8>>,
    /// What it can tell; none where it is of a kind that is not known.
    properties: Option<&'static [Property]>,
}

impl Addresses {
    /// Reads a database in MaxMind's format. `Invalid` where it is none.
    pub fn read(bytes: Vec<u8>) -> Result<Addresses> {
        let reader = Reader::from_source(bytes)
            .map_err(|e| Error::invalid("this is not a database of MaxMind's format").with_source(e))?;
        let of_kind = |(suffix, _): &&(&str, _)| reader.metadata().database_type.ends_with(suffix);
        let properties = KINDS.iter().find(of_kind).map(|(_, properties)| *properties);
        Ok(Addresses { reader, properties })
    }

    /// What it calls its kind, such as `GeoLite2-City`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }
}

/// Something that a database tells of an address.
#[derive(Debug)]
struct Property {
    name: &'static str,
    /// Whether it is told unless others are asked for.
    is_default: bool,
    take: fn(&Found<'_>) -> Taken<Json>,
}

type Taken<T> = std::result::Result<Option<T>, MaxMindDbError>;

const fn by_default(name: &'static str, take: fn(&Found<'_>) -> Taken<Json>) -> Property {
    Property { name, is_default: true, take }
}

const fn if_asked(name: &'static str, take: fn(&Found<'_>) -> Taken<Json>) -> Property {
    Property { name, is_default: false, take }
}

/// Properties by the end of the name of a database's kind.
const KINDS: &[(&str, &[Property])] = &[
    ("-City", CITY),
    ("-Country", COUNTRY),
    ("-ASN", ASN),
    ("-Anonymous-IP", ANONYMOUS),
    ("-Connection-Type", CONNECTION),
    ("-Domain", DOMAIN),
    ("-Enterprise", CITY),
    ("-ISP", ISP),
];

// What several kinds tell.
const AS_NUMBER: Property = by_default("asn", |of| of.whole(&path!["autonomous_system_number"]));
const AS_ORGANIZATION: Property =
    by_default("organization_name", |of| of.text(&path!["autonomous_system_organization"]));
const CONTINENT_CODE: Property = if_asked("continent_code", |of| of.text(&path!["continent", "code"]));
const CONTINENT_NAME: Property =
    by_default("continent_name", |of| of.text(&path!["continent", "names", "en"]));
const COUNTRY_CODE: Property = by_default("country_iso_code", |of| of.text(&path!["country", "iso_code"]));
const COUNTRY_IN_UNION: Property =
    if_asked("country_in_european_union", |of| of.in_european_union("country"));
const COUNTRY_NAME: Property = by_default("country_name", |of| of.text(&path!["country", "names", "en"]));
const IP: Property = if_asked("ip", |of| of.ip());
const NETWORK: Property = by_default("network", |of| of.network());
const REGISTERED_CODE: Property =
    if_asked("registered_country_iso_code", |of| of.text(&path!["registered_country", "iso_code"]));
const REGISTERED_IN_UNION: Property =
    if_asked("registered_country_in_european_union", |of| of.in_european_union("registered_country"));
const REGISTERED_NAME: Property =
    if_asked("registered_country_name", |of| of.text(&path!["registered_country", "names", "en"]));

const CITY: &[Property] = &[
    if_asked("accuracy_radius", |of| of.whole(&path!["location", "accuracy_radius"])),
    by_default("city_name", |of| of.text(&path!["city", "names", "en"])),
    CONTINENT_CODE,
    CONTINENT_NAME,
    COUNTRY_IN_UNION,
    COUNTRY_CODE,
    COUNTRY_NAME,
    IP,
    by_default("location", |of| of.location()),
    if_asked("postal_code", |of| of.text(&path!["postal", "code"])),
    by_default("region_iso_code", |of| of.region_iso_code()),
    by_default("region_name", |of| of.text(&path!["subdivisions", -1, "names", "en"])),
    REGISTERED_IN_UNION,
    REGISTERED_CODE,
    REGISTERED_NAME,
    if_asked("timezone", |of| of.text(&path!["location", "time_zone"])),
];

const COUNTRY: &[Property] = &[
    CONTINENT_CODE,
    CONTINENT_NAME,
    COUNTRY_IN_UNION,
    COUNTRY_CODE,
    COUNTRY_NAME,
    IP,
    REGISTERED_IN_UNION,
    REGISTERED_CODE,
    REGISTERED_NAME,
];

const ASN: &[Property] = &[AS_NUMBER, by_default("ip", |of| of.ip()), NETWORK, AS_ORGANIZATION];

const ANONYMOUS: &[Property] = &[
    by_default("anonymous", |of| of.flag(&path!["is_anonymous"])),
    by_default("anonymous_vpn", |of| of.flag(&path!["is_anonymous_vpn"])),
    by_default("hosting_provider", |of| of.flag(&path!["is_hosting_provider"])),
    IP,
    by_default("public_proxy", |of| of.flag(&path!["is_public_proxy"])),
    by_default("residential_proxy", |of| of.flag(&path!["is_residential_proxy"])),
    by_default("tor_exit_node", |of| of.flag(&path!["is_tor_exit_node"])),
];

const CONNECTION: &[Property] = &[by_default("connection_type", |of| of.text(&path!["connection_type"])), IP];

const DOMAIN: &[Property] = &[by_default("domain", |of| of.text(&path!["domain"])), IP];

const ISP: &[Property] = &[
    AS_NUMBER,
    by_default("ip", |of| of.ip()),
    by_default("isp", |of| of.text(&path!["isp"])),
    by_default("isp_organization_name", |of| of.text(&path!["organization"])),
    by_default("mobile_country_code", |of| of.text(&path!["mobile_country_code"])),
    by_default("mobile_network_code", |of| of.text(&path!["mobile_network_code"])),
    NETWORK,
    AS_ORGANIZATION,
];

/// The record of an address.
struct Found<'a> {
    address: IpAddr,
    record: LookupResult<'a, Vec<u8>>,
}

impl Found<'_> {
    fn text(&self, path: &[PathElement<'_>]) -> Taken<Json> {
        Ok(self.record.decode_path::<String>(path)?.map(Json::from))
    }

    fn whole(&self, path: &[PathElement<'_>]) -> Taken<Json> {
        // Numbers of any size are read as this.
        Ok(self.record.decode_path::<i64>(path)?.map(Json::from))
    }

    /// False where the record does not say it.
    fn flag(&self, path: &[PathElement<'_>]) -> Taken<Json> {
        Ok(Some(Json::from(self.record.decode_path::<bool>(path)?.unwrap_or(false))))
    }

    fn in_european_union(&self, country: &str) -> Taken<Json> {
        match self.record.decode_path::<String>(&[country.into(), "iso_code".into()])? {
            Some(_) => self.flag(&[country.into(), "is_in_european_union".into()]),
            None => Ok(None),
        }
    }

    fn region_iso_code(&self) -> Taken<Json> {
        let country: Option<String> = self.record.decode_path(&path!["country", "iso_code"])?;
        let region: Option<String> = self.record.decode_path(&path!["subdivisions", -1, "iso_code"])?;
        Ok(country.zip(region).map(|(country, region)| Json::from(format!("{country}-{region}"))))
    }

    fn location(&self) -> Taken<Json> {
        let lat: Option<f64> = self.record.decode_path(&path!["location", "latitude"])?;
        let lon: Option<f64> = self.record.decode_path(&path!["location", "longitude"])?;
        Ok(lat.zip(lon).map(|(lat, lon)| json!({ "lat": lat, "lon": lon })))
    }

    fn ip(&self) -> Taken<Json> {
        Ok(Some(Json::from(self.address.to_string())))
    }

    fn network(&self) -> Taken<Json> {
        Ok(Some(Json::from(self.record.network()?.to_string())))
    }
}

#[derive(Debug)]
struct Locate {
    kind: &'static str,
    field: Field,
    target: Field,
    file: String,
    /// What is told; none for what the database tells by default.
    properties: Option<Vec<String>>,
    first_only: bool,
    ignore_missing: bool,
}

pub(crate) fn geoip(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    locate(options, "geoip")
}

pub(crate) fn ip_location(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    locate(options, "ip_location")
}

fn locate(options: &mut Options<'_>, kind: &'static str) -> Result<Box<dyn Processor>> {
    // Nobody downloads databases here.
    options.flag("download_database_on_pipeline_creation", true)?;
    let file = options.text("database_file")?.unwrap_or_else(|| "GeoLite2-City.mmdb".to_owned());
    if !file.ends_with(".mmdb") || file.starts_with('.') || file.contains(['/', '\\']) {
        return Err(options.wrong("database_file", "is the name of a file that ends in .mmdb"));
    }
    let target = match options.field("target_field")? {
        Some(target) => target,
        None => Field::parse(kind).map_err(|what| options.wrong("target_field", what))?,
    };
    let properties = options.texts("properties")?;
    let properties = properties.map(|names| names.into_iter().map(|name| name.to_lowercase()).collect());
    let known = || KINDS.iter().flat_map(|(_, properties)| properties.iter());
    let is_known = |name: &&String| !known().any(|property| property.name == **name);
    let properties: Option<Vec<String>> = properties;
    if let Some(other) = properties.iter().flatten().find(is_known) {
        return Err(options.wrong("properties", format!("has [{}], which no database tells", shown(other))));
    }
    Ok(Box::new(Locate {
        kind,
        field: options.required_field("field")?,
        target,
        file,
        properties,
        first_only: options.flag("first_only", true)?,
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Locate {
    /// What the database tells of an address; null where it does not know it.
    fn look_up(&self, database: &Addresses, text: &str) -> Done<Value> {
        let Ok(address) = text.parse::<IpAddr>() else {
            return Err(unfit(format!("'{}' is not an IP string literal.", shown(text))));
        };
        let Some(properties) = database.properties else {
            let kind = shown(database.kind());
            let reason = format!("Unsupported database type [{kind}] for file [{}]", self.file);
            return Err(unfit(reason));
        };
        let record = database.reader.lookup(address).map_err(|e| self.damaged(&e))?;
        if !record.has_data() {
            return Ok(Value::Null);
        }
        let found = Found { address, record };
        let mut told = serde_json::Map::new();
        let mut take = |property: &Property| {
            let value = (property.take)(&found).map_err(|e| self.damaged(&e))?;
            value.map(|value| told.insert(property.name.to_owned(), value));
            Ok::<(), Stop>(())
        };
        match &self.properties {
            None => properties.iter().filter(|property| property.is_default).try_for_each(&mut take)?,
            Some(wanted) => {
                for name in wanted {
                    match properties.iter().find(|property| property.name == *name) {
                        Some(property) => take(property)?,
                        None => {
                            let known: Vec<&str> = properties.iter().map(|property| property.name).collect();
                            let known = known.join(", ");
                            return Err(unfit(format!(
                                "illegal property value [{name}]. valid values are [{known}]"
                            )));
                        }
                    }
                }
            }
        }
        Ok(if told.is_empty() { Value::Null } else { told.into() })
    }

    fn damaged(&self, error: &MaxMindDbError) -> Stop {
        let reason = format!("the database [{}] is damaged, replace its file: {error}", self.file);
        failure("illegal_state_exception", reason)
    }
}

/// What it counts to look up an address.
const ADDRESS_BYTES: u64 = 1_024;

impl Processor for Locate {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Done {
        let Some(database) = run.pipelines.addresses(&self.file) else {
            let tags = Path::parse("tags").map_err(unfit)?;
            let tag = format!("_{}_database_unavailable_{}", self.kind, self.file);
            return document.append(&tags, vec![Value::from(tag)], true);
        };
        let path = self.field.path(document)?;
        let told = match document.need(&path, self.ignore_missing)? {
            None => return Ok(()),
            Some(Value::String(text)) => {
                document.look(ADDRESS_BYTES, READ)?;
                self.look_up(&database, text)?
            }
            Some(Value::Array(elements)) => {
                let mut all = Vec::new();
                for element in elements {
                    document.look(ADDRESS_BYTES, READ)?;
                    let Value::String(text) = element else {
                        return Err(unfit(format!("array in field [{path}] should only contain strings")));
                    };
                    all.push(self.look_up(&database, text)?);
                    if self.first_only && !all.ends_with(&[Value::Null]) {
                        break;
                    }
                }
                match (self.first_only, all.iter().all(Value::is_null)) {
                    (_, true) => Value::Null,
                    (true, false) => all.pop().unwrap_or_default(),
                    (false, false) => Value::Array(all),
                }
            }
            Some(other) => {
                let reason = "should contain only string or array of strings";
                return Err(unfit(format!("field [{path}] of type [{}] {reason}", kind(other))));
            }
        };
        if told.is_null() {
            return Ok(());
        }
        let target = self.target.path(document)?.into_owned();
        document.put(&target, told)
    }
}

#[cfg(test)]
pub(crate) mod mmdb;
#[cfg(test)]
mod tests;
