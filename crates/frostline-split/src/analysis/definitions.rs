//! What settings define: analyzers and normalizers, and the tokenizers and filters that these are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use frostline_base::wildcard_matches;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chars::CharFilter;
use super::filters::TokenFilter;
use super::pattern::{Pattern, replacement_of_java};
use super::tokenizers::{Tokenizer, WORD_MAX};
use super::{Analysis, Chain, STOP_WORDS};
use crate::{Error, Result};

/// The most that settings may define for one index: each version of its mapping has it.
pub const DEFINITIONS_BYTES_MAX: usize = 64 << 10;
/// The longest part of a word that is a word of its own.
const GRAM_MAX: usize = 256;
/// By how much the lengths of such parts may differ, unless `index.max_ngram_diff` says more.
const GRAM_LENGTHS: usize = 1;

const ANALYZER: &str = "analyzer";
const CHAR_FILTER: &str = "char_filter";
const FILTER: &str = "filter";
const NORMALIZER: &str = "normalizer";
const TOKENIZER: &str = "tokenizer";

/// The analyzer of text for which no field names one, and that of queries for it.
const DEFAULTS: [&str; 2] = ["default", "default_search"];

const CHAR_FILTERS: [&str; 3] = ["html_strip", "mapping", "pattern_replace"];
const TOKENIZERS: [&str; 10] = [
    "char_group",
    "edge_ngram",
    "keyword",
    "letter",
    "lowercase",
    "ngram",
    "path_hierarchy",
    "pattern",
    "standard",
    "whitespace",
];
const FILTERS: [&str; 15] = [
    "apostrophe",
    "asciifolding",
    "edge_ngram",
    "keep",
    "length",
    "limit",
    "lowercase",
    "ngram",
    "pattern_replace",
    "reverse",
    "stop",
    "trim",
    "truncate",
    "unique",
    "uppercase",
];
const ANALYZERS: [&str; 7] = ["custom", "keyword", "pattern", "simple", "standard", "stop", "whitespace"];

/// `settings.analysis` of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definitions {
    /// The options of each, in JSON, by its kind and its name.
    parts: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    max_ngram_diff: Option<usize>,
    /// Whether it is not known what is defined, so that any name may be.
    #[serde(skip)]
    is_unknown: bool,
    #[serde(skip)]
    made: Made,
}

/// The analyzers and normalizers, made. They follow from the definitions, so they count for nothing where these are
/// compared.
#[derive(Clone, Debug, Default)]
struct Made(OnceLock<Arc<BTreeMap<(bool, String), Analysis>>>);

impl PartialEq for Made {
    fn eq(&self, _: &Made) -> bool {
        true
    }
}

impl Eq for Made {}

impl Definitions {
    /// Reads the settings of an index in any of the forms in which they are written. What they say of anything else is
    /// not looked at.
    pub fn from_settings(settings: &Value) -> Result<Definitions> {
        let mut leaves = Vec::new();
        flatten("", settings, &mut leaves);
        let mut options: BTreeMap<(&str, &str), BTreeMap<&str, &Value>> = BTreeMap::new();
        let mut definitions = Definitions::default();
        for (name, value) in &leaves {
            let name = name.strip_prefix("index.").unwrap_or(name);
            if name == "max_ngram_diff" && !value.is_null() {
                definitions.max_ngram_diff = text_of(value).parse().ok();
            }
            let Some(name) = name.strip_prefix("analysis.") else { continue };
            // It resets the matching settings and defines nothing.
            if value.is_null() && name.contains('*') {
                continue;
            }
            let mut parts = name.splitn(3, '.');
            let (kind, name, option) = match (parts.next(), parts.next(), parts.next()) {
                (Some(kind), Some(name), Some(option)) => (kind, name, option),
                // Nothing of a kind is defined.
                (_, None, _) if value.is_null() => continue,
                _ => {
                    return Err(Error::invalid(format!(
                        "[index.analysis.{name}] must be an object of options: analysis.KIND.NAME = {{…}}"
                    )));
                }
            };
            if value.is_null() {
                continue;
            }
            if ![ANALYZER, CHAR_FILTER, FILTER, NORMALIZER, TOKENIZER].contains(&kind) {
                return Err(Error::invalid(format!(
                    "unknown setting [index.analysis.{kind}.{name}]: settings define analyzer, char_filter, filter, \
                     normalizer and tokenizer"
                )));
            }
            options.entry((kind, name)).or_default().insert(option, value);
        }
        for ((kind, name), options) in options {
            let json = serde_json::to_string(&options).unwrap_or_default();
            definitions.parts.entry(kind.to_owned()).or_default().insert(name.to_owned(), json);
        }
        definitions.check()?;
        Ok(definitions)
    }

    /// Where it is not known what is defined: no name of an analyzer is refused.
    pub fn unknown() -> Definitions {
        Definitions { is_unknown: true, ..Definitions::default() }
    }

    /// Only the analyzers and normalizers with these names, and the defaults.
    pub(crate) fn named_only(&self, names: &BTreeSet<String>) -> Definitions {
        if !self.parts.is_empty() {
            self.made();
        }
        let mut seen = self.clone();
        for kind in [ANALYZER, NORMALIZER] {
            let Some(parts) = seen.parts.get_mut(kind) else { continue };
            parts.retain(|name, _| names.contains(name) || DEFAULTS.contains(&name.as_str()));
        }
        seen
    }

    /// Whether nothing is defined.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The settings that define it.
    pub fn to_settings(&self) -> Value {
        let parts = |kind: &String, parts: &BTreeMap<String, String>| {
            let each = parts
                .keys()
                .map(|name| (name.clone(), Value::Object(self.options(kind, name).unwrap_or_default())));
            (kind.clone(), Value::Object(each.collect()))
        };
        let all = self.parts.iter().map(|(kind, of)| parts(kind, of));
        serde_json::json!({ "analysis": all.collect::<Map<_, _>>() })
    }

    /// These with others. `Invalid` where one of the others has the name of one that is there and says something else:
    /// what is found in fields that have it would change.
    pub fn adding(&self, others: &Definitions) -> Result<Definitions> {
        for (kind, parts) in &others.parts {
            let known = self.parts.get(kind);
            let is_other = |(name, json): &(&String, &String)| {
                known.and_then(|known| known.get(*name)).is_some_and(|ours| ours != *json)
            };
            // Fields and analyzers have these without a definition.
            let is_built_in = |(name, _): &(&String, &String)| match kind.as_str() {
                ANALYZER => DEFAULTS.contains(&name.as_str()) || Analysis::analyzer(name).is_some(),
                NORMALIZER => Analysis::normalizer(name).is_some(),
                TOKENIZER => !matches!(Definitions::default().tokenizer(name), Ok(None)),
                FILTER => !matches!(Definitions::default().filter(name), Ok(None)),
                _ => !matches!(Definitions::default().char_filter(name), Ok(None)),
            };
            let is_new =
                |(name, _): &(&String, &String)| known.is_none_or(|known| !known.contains_key(*name));
            let is_refused = |part: &(&String, &String)| is_other(part) || is_built_in(part) && is_new(part);
            if let Some((name, _)) = parts.iter().find(is_refused) {
                return Err(unchangeable(&format!("analysis.{kind}.{name}")));
            }
        }
        let mut all = self.clone();
        all.absorb(others);
        all.check()?;
        Ok(all)
    }

    /// `Invalid` if a setting to reset defines something here. `name` has no `index.` and may contain `*`.
    pub fn check_reset(&self, name: &str) -> Result<()> {
        if name.contains('*') {
            let (settings, mut names) = (self.to_settings(), Vec::new());
            flatten("", &settings, &mut names);
            let is_there = names.iter().any(|(known, _)| wildcard_matches(name, known));
            return if is_there { Err(unchangeable(name)) } else { Ok(()) };
        }
        let mut parts = name.splitn(4, '.').skip(1);
        let is_there = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => !self.is_empty(),
            (Some(kind), None, _) => self.parts.contains_key(kind),
            (Some(kind), Some(name), None) => self.options(kind, name).is_some(),
            (Some(kind), Some(name), Some(option)) => {
                self.options(kind, name).is_some_and(|options| options.contains_key(option))
            }
        };
        if is_there { Err(unchangeable(name)) } else { Ok(()) }
    }

    /// Takes in those of another writer. Where both have one of a name, the greater text counts.
    pub(crate) fn absorb(&mut self, others: &Definitions) {
        for (kind, parts) in &others.parts {
            let ours = self.parts.entry(kind.clone()).or_default();
            for (name, json) in parts {
                let known = ours.entry(name.clone()).or_default();
                if *known < *json {
                    known.clone_from(json);
                }
            }
        }
        self.max_ngram_diff = self.max_ngram_diff.max(others.max_ngram_diff);
        self.made = Made::default();
    }

    /// The analyzer of this name, which a field may have.
    pub fn analyzer(&self, name: &str) -> Option<Analysis> {
        self.of(false, name).or_else(|| Analysis::analyzer(name))
    }

    /// How text is compared for which no field says it; none where that is as all text is.
    pub(crate) fn default_analysis(&self) -> Option<Analysis> {
        let own = DEFAULTS.map(|name| self.of(false, name).filter(|_| self.defines_analyzer(name)));
        match own {
            [None, None] => None,
            [Some(own), None] => Some(own),
            [own, Some(queries)] => Some(own.or_else(|| Analysis::analyzer("standard"))?.asked_by(&queries)),
        }
    }

    /// The normalizer of this name.
    pub fn normalizer(&self, name: &str) -> Option<Analysis> {
        self.of(true, name).or_else(|| Analysis::normalizer(name))
    }

    /// `Invalid` where no analyzer, or normalizer, has the name that a field gives.
    pub(crate) fn check_name(&self, name: &str, path: &str, is_normalizer: bool) -> Result<()> {
        if self.is_unknown {
            return Ok(());
        }
        let (is_there, what) = match is_normalizer {
            true => (
                self.normalizer(name).is_some(),
                format!(
                    "normalizer [{name}] not found for field [{path}]: {}",
                    self.known(NORMALIZER, &["lowercase"])
                ),
            ),
            false => (
                self.analyzer(name).is_some() || name == "default",
                format!(
                    "analyzer [{name}] has not been configured in mappings (of field [{path}]): {}",
                    self.analyzers()
                ),
            ),
        };
        is_there.then_some(()).ok_or_else(|| Error::invalid(what))
    }

    /// Which analyzers there are, for an error.
    pub fn analyzers(&self) -> String {
        self.known(ANALYZER, &["keyword", "simple", "standard", "stop", "whitespace"])
    }

    /// What there is of a kind.
    fn known(&self, kind: &str, own: &[&str]) -> String {
        let defined = self.parts.get(kind).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        let all: BTreeSet<&str> = own.iter().copied().chain(defined).collect();
        let all = listed(&all.into_iter().collect::<Vec<_>>());
        format!(
            "there are {all}, and settings of an index may define others in [analysis]: there is no stemming"
        )
    }

    /// Whether an analyzer of this name is defined here that is another than that of all text.
    pub fn defines_analyzer(&self, name: &str) -> bool {
        let Some(options) = self.options(ANALYZER, name) else { return false };
        let is_usual = options.len() == 1 && options.get("type").is_some_and(|ty| ty == "standard");
        name != "default" || !is_usual
    }

    fn of(&self, is_normalizer: bool, name: &str) -> Option<Analysis> {
        let kind = if is_normalizer { NORMALIZER } else { ANALYZER };
        if !self.parts.get(kind)?.contains_key(name) {
            return None;
        }
        self.made().get(&(is_normalizer, name.to_owned())).cloned()
    }

    fn made(&self) -> &BTreeMap<(bool, String), Analysis> {
        self.made.0.get_or_init(|| {
            // They were checked when they were read.
            let of_kind = |kind: &'static str| {
                let names = self.parts.get(kind).into_iter().flat_map(BTreeMap::keys);
                names.filter_map(move |name| {
                    let chain = self.chain(kind, name).ok()?;
                    Some(((kind == NORMALIZER, name.clone()), chain.into()))
                })
            };
            Arc::new(of_kind(ANALYZER).chain(of_kind(NORMALIZER)).collect())
        })
    }

    fn check(&self) -> Result<()> {
        let bytes = self.parts.values().flatten().map(|(name, json)| name.len() + json.len()).sum::<usize>();
        if bytes > DEFINITIONS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "[index.analysis] has {bytes} bytes, more than {DEFINITIONS_BYTES_MAX}: give fewer or shorter lists of words"
            )));
        }
        for (kind, parts) in &self.parts {
            for name in parts.keys() {
                match kind.as_str() {
                    ANALYZER | NORMALIZER => drop(self.chain(kind, name)?),
                    TOKENIZER => drop(self.tokenizer(name)?),
                    FILTER => drop(self.filter(name)?),
                    _ => drop(self.char_filter(name)?),
                }
            }
        }
        Ok(())
    }

    fn options(&self, kind: &str, name: &str) -> Option<Map<String, Value>> {
        serde_json::from_str(self.parts.get(kind)?.get(name)?).ok()
    }

    /// An analyzer or a normalizer that is defined here.
    fn chain(&self, kind: &str, name: &str) -> Result<Chain> {
        let options = self.options(kind, name).unwrap_or_default();
        let mut options = Options::new(kind, name, &options);
        match kind {
            NORMALIZER => self.normalizer_of(name, &mut options),
            _ => self.analyzer_of(name, &mut options),
        }
    }

    fn analyzer_of(&self, name: &str, options: &mut Options<'_>) -> Result<Chain> {
        let ty = options.text("type")?;
        if ty.is_none() && !options.has(TOKENIZER) {
            return Err(Error::invalid(format!(
                "analyzer [{name}] must specify either an analyzer type, or a tokenizer"
            )));
        }
        let ty = ty.unwrap_or_else(|| "custom".to_owned());
        let lowercase = || (TokenFilter::Lowercase, "lowercase");
        let stop =
            |words: BTreeSet<String>| (TokenFilter::Words { words, any_case: false, kept: false }, "stop");
        let with_stop = |filters: Vec<(TokenFilter, &'static str)>, words: Option<BTreeSet<String>>| {
            filters.into_iter().chain(words.filter(|words| !words.is_empty()).map(stop)).collect()
        };
        let chain = match ty.as_str() {
            "custom" => return self.custom(name, options),
            "standard" => {
                let most = options.number("max_token_length")?.unwrap_or(WORD_MAX).max(1);
                let filters = with_stop(vec![lowercase()], options.stopwords()?);
                Chain::plain(name, false, Tokenizer::Standard { most }, filters)
            }
            "simple" => Chain::plain(name, false, Tokenizer::Lowercase, Vec::new()),
            "stop" => {
                let words = options.stopwords()?.unwrap_or_else(english);
                Chain::plain(name, false, Tokenizer::Lowercase, with_stop(Vec::new(), Some(words)))
            }
            "whitespace" => Chain::plain(name, false, Tokenizer::whitespace(), Vec::new()),
            "keyword" => Chain::plain(name, false, Tokenizer::Keyword, Vec::new()),
            "pattern" => {
                let pattern = options.pattern(Some(r"\W+"))?;
                let is_lower = options.flag("lowercase")?.unwrap_or(true);
                let filters = if is_lower { vec![lowercase()] } else { Vec::new() };
                let filters = with_stop(filters, options.stopwords()?);
                Chain::plain(name, false, Tokenizer::Between { pattern, most: usize::MAX }, filters)
            }
            other => {
                return Err(Error::invalid(format!(
                    "Unknown analyzer type [{other}] for [{name}]: there are {}; there is no stemming. For a \
                     language, define a custom analyzer with the filters lowercase and stop, and a list of its stop words",
                    listed(&ANALYZERS)
                )));
            }
        };
        options.finish()?;
        Ok(chain)
    }

    fn custom(&self, name: &str, options: &mut Options<'_>) -> Result<Chain> {
        let missing = |what: &str, part: &str| {
            Error::invalid(format!("Custom Analyzer [{name}] failed to find {what} under name [{part}]"))
        };
        let tokenizer = options.text(TOKENIZER)?.unwrap_or_else(|| "null".to_owned());
        let own = self.tokenizer(&tokenizer)?.ok_or_else(|| missing(TOKENIZER, &tokenizer))?;
        let mut chain = Chain::plain(name, false, own, Vec::new());
        chain.tokenizer.0 = tokenizer;
        for part in options.list(CHAR_FILTER)?.unwrap_or_default() {
            let filter = self.char_filter(&part)?.ok_or_else(|| missing(CHAR_FILTER, &part))?;
            chain.char_filters.push((part, filter));
        }
        for part in options.list(FILTER)?.unwrap_or_default() {
            let filter = self.filter(&part)?.ok_or_else(|| missing(FILTER, &part))?;
            chain.filters.push((part, filter));
        }
        // How far values of a field are from one another: no phrase goes over two of them.
        options.ignore(&["position_increment_gap", "position_offset_gap"]);
        options.finish()?;
        Ok(chain)
    }

    fn normalizer_of(&self, name: &str, options: &mut Options<'_>) -> Result<Chain> {
        let invalid = |what: String| Error::invalid(format!("Custom normalizer [{name}] {what}"));
        match options.text("type")?.as_deref() {
            None | Some("custom") => {}
            Some("lowercase") => {
                options.finish()?;
                let filters = vec![(TokenFilter::Lowercase, "lowercase")];
                return Ok(Chain::plain(name, true, Tokenizer::Keyword, filters));
            }
            Some(other) => {
                return Err(Error::invalid(format!(
                    "Unknown normalizer type [{other}] for [{name}]: there are [custom] and [lowercase]"
                )));
            }
        }
        if options.has(TOKENIZER) {
            return Err(invalid("cannot configure a tokenizer".to_owned()));
        }
        let mut chain = Chain::plain(name, true, Tokenizer::Keyword, Vec::new());
        for part in options.list(CHAR_FILTER)?.unwrap_or_default() {
            let filter = self.char_filter(&part)?;
            let filter =
                filter.ok_or_else(|| invalid(format!("failed to find char_filter under name [{part}]")))?;
            if !filter.is_normalizing() {
                return Err(invalid(format!("may not use char filter [{part}]")));
            }
            chain.char_filters.push((part, filter));
        }
        for part in options.list(FILTER)?.unwrap_or_default() {
            let filter = self.filter(&part)?;
            let filter =
                filter.ok_or_else(|| invalid(format!("failed to find filter under name [{part}]")))?;
            if !filter.is_normalizing() {
                return Err(invalid(format!("may not use filter [{part}]")));
            }
            chain.filters.push((part, filter));
        }
        options.finish()?;
        Ok(chain)
    }

    /// What a request describes itself by a tokenizer and filters, each by its name or with its options. Without a
    /// tokenizer it is a normalizer. `global` is said of what is not found where no index is asked.
    pub fn described(&self, request: &Map<String, Value>, global: bool) -> Result<Analysis> {
        let scope = if global { "global " } else { "" };
        let missing = |what: &str, name: &str, known: &[&str]| {
            let known = listed(known);
            Error::invalid(format!("failed to find {scope}{what} under [{name}]: there are {known}"))
        };
        let parts = |key: &str| match request.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all.iter().collect(),
            Some(one) => vec![one],
        };
        let is_normalizer = !request.contains_key(TOKENIZER);
        let mut chain = Chain::plain("__custom__", is_normalizer, Tokenizer::Keyword, Vec::new());
        chain.tokenizer.0 = "keyword".to_owned();
        if let Some(part) = request.get(TOKENIZER) {
            let (name, own) = match Part::read(TOKENIZER, part)? {
                Part::Named(name) => (name.clone(), self.tokenizer(&name)?),
                Part::Described { ty, name, options } => {
                    (name.clone(), self.tokenizer_of(&ty, &mut Options::new(TOKENIZER, &name, &options))?)
                }
            };
            let own = own.ok_or_else(|| missing(TOKENIZER, &name, &TOKENIZERS))?;
            chain.tokenizer = (name, own);
        }
        for part in parts(CHAR_FILTER) {
            let (name, own) = match Part::read(CHAR_FILTER, part)? {
                Part::Named(name) => (name.clone(), self.char_filter(&name)?),
                Part::Described { ty, name, options } => {
                    (name.clone(), char_filter_of(&ty, &mut Options::new(CHAR_FILTER, &name, &options))?)
                }
            };
            let own = own.ok_or_else(|| missing(CHAR_FILTER, &name, &CHAR_FILTERS))?;
            chain.char_filters.push((name, own));
        }
        for part in parts(FILTER) {
            let (name, own) = match Part::read(FILTER, part)? {
                Part::Named(name) => (name.clone(), self.filter(&name)?),
                Part::Described { ty, name, options } => {
                    (name.clone(), self.filter_of(&ty, &mut Options::new(FILTER, &name, &options))?)
                }
            };
            let own = own.ok_or_else(|| missing("token filter", &name, &FILTERS))?;
            chain.filters.push((name, own));
        }
        Ok(chain.into())
    }

    /// The tokenizer of a name, which settings define or Elasticsearch has; none where there is none.
    fn tokenizer(&self, name: &str) -> Result<Option<Tokenizer>> {
        match self.options(TOKENIZER, name) {
            Some(options) => {
                let mut options = Options::new(TOKENIZER, name, &options);
                let ty = options.needed_type()?;
                let made = self.tokenizer_of(&ty, &mut options)?;
                made.map(Some).ok_or_else(|| options.unknown_type(&ty, &TOKENIZERS))
            }
            None if name == "char_group" => Ok(None),
            None => self.tokenizer_of(name, &mut Options::new(TOKENIZER, name, &Map::new())),
        }
    }

    fn filter(&self, name: &str) -> Result<Option<TokenFilter>> {
        match self.options(FILTER, name) {
            Some(options) => {
                let mut options = Options::new(FILTER, name, &options);
                let ty = options.needed_type()?;
                let made = self.filter_of(&ty, &mut options)?;
                made.map(Some).ok_or_else(|| options.unknown_type(&ty, &FILTERS))
            }
            None if matches!(name, "keep" | "pattern_replace") => Ok(None),
            None => self.filter_of(name, &mut Options::new(FILTER, name, &Map::new())),
        }
    }

    fn char_filter(&self, name: &str) -> Result<Option<CharFilter>> {
        match self.options(CHAR_FILTER, name) {
            Some(options) => {
                let mut options = Options::new(CHAR_FILTER, name, &options);
                let ty = options.needed_type()?;
                let made = char_filter_of(&ty, &mut options)?;
                made.map(Some).ok_or_else(|| options.unknown_type(&ty, &CHAR_FILTERS))
            }
            None if name == "html_strip" => {
                char_filter_of(name, &mut Options::new(CHAR_FILTER, name, &Map::new()))
            }
            None => Ok(None),
        }
    }

    fn tokenizer_of(&self, ty: &str, options: &mut Options<'_>) -> Result<Option<Tokenizer>> {
        let most = |options: &mut Options<'_>| -> Result<usize> {
            let most = options.number("max_token_length")?.unwrap_or(WORD_MAX);
            (most > 0).then_some(most).ok_or_else(|| options.invalid("[max_token_length] must be at least 1"))
        };
        let tokenizer = match ty {
            "standard" => Tokenizer::Standard { most: most(options)? },
            "whitespace" => Tokenizer::Whitespace { most: most(options)? },
            "keyword" => {
                options.ignore(&["buffer_size"]);
                Tokenizer::Keyword
            }
            "letter" => Tokenizer::Letter,
            "lowercase" => Tokenizer::Lowercase,
            "pattern" => {
                let pattern = options.pattern(Some(r"\W+"))?;
                match options.text("group")?.as_deref() {
                    None | Some("-1") => Tokenizer::Between { pattern, most: usize::MAX },
                    Some(group) => {
                        let wrong = || options.invalid("[group] is -1 or the number of a group");
                        Tokenizer::Matching { pattern, group: group.parse().map_err(|_| wrong())? }
                    }
                }
            }
            "path_hierarchy" | "PathHierarchy" => {
                let delimiter = options.character("delimiter")?.unwrap_or('/');
                let by = options.character("replacement")?.unwrap_or(delimiter);
                let reverse = options.flag("reverse")?.unwrap_or(false);
                options.ignore(&["buffer_size"]);
                Tokenizer::Paths { delimiter, by, reverse, skip: options.number("skip")?.unwrap_or(0) }
            }
            "char_group" => {
                let characters = options.list("tokenize_on_chars")?.unwrap_or_default();
                let most = most(options)?;
                let class = class_of(&characters).map_err(|what| options.invalid(&what))?;
                match class {
                    Some(class) => Tokenizer::Between { pattern: Pattern::new(format!("[{class}]+"))?, most },
                    None => Tokenizer::Keyword,
                }
            }
            "ngram" | "nGram" | "edge_ngram" | "edgeNGram" => {
                let only_first = ty.starts_with("edge");
                let (shortest, longest) = self.gram_lengths(options, "NGram Tokenizer", only_first)?;
                let mut kinds = options.list("token_chars")?.unwrap_or_default();
                if let Some(custom) = options.text("custom_token_chars")? {
                    kinds.retain(|kind| kind != "custom");
                    kinds.extend(custom.chars().map(String::from));
                }
                let class = class_of(&kinds).map_err(|what| options.invalid(&what))?;
                let between = class.map(|class| Pattern::new(format!("[^{class}]+"))).transpose()?;
                Tokenizer::Grams { shortest, longest, only_first, between }
            }
            _ => return Ok(None),
        };
        options.finish()?;
        Ok(Some(tokenizer))
    }

    fn filter_of(&self, ty: &str, options: &mut Options<'_>) -> Result<Option<TokenFilter>> {
        let filter = match ty {
            "lowercase" => TokenFilter::Lowercase,
            "uppercase" => TokenFilter::Uppercase,
            "trim" => TokenFilter::Trim,
            "reverse" => TokenFilter::Reverse,
            "apostrophe" => TokenFilter::Apostrophe,
            "asciifolding" => {
                TokenFilter::AsciiFolding { keeps: options.flag("preserve_original")?.unwrap_or(false) }
            }
            "stop" => {
                let any_case = options.flag("ignore_case")?.unwrap_or(false);
                // What is last in a query may go on.
                options.ignore(&["remove_trailing"]);
                let words = options.stopwords()?.unwrap_or_else(english);
                TokenFilter::Words { words: cased(words, any_case), any_case, kept: false }
            }
            "keep" => {
                let any_case = options.flag("keep_words_case")?.unwrap_or(false);
                let words = options.list("keep_words")?;
                let words =
                    words.ok_or_else(|| options.invalid("[keep_words] is the list of words to keep"))?;
                let words = cased(words.into_iter().collect(), any_case);
                TokenFilter::Words { words, any_case: false, kept: true }
            }
            "length" => TokenFilter::Length {
                least: options.number("min")?.unwrap_or(0),
                most: options.number("max")?.unwrap_or(usize::MAX),
            },
            "truncate" => TokenFilter::Truncate { most: options.number("length")?.unwrap_or(10) },
            "unique" => {
                TokenFilter::Unique { same_place: options.flag("only_on_same_position")?.unwrap_or(false) }
            }
            "limit" => {
                options.ignore(&["consume_all_tokens"]);
                TokenFilter::Limit { most: options.number("max_token_count")?.unwrap_or(1) }
            }
            "ngram" | "nGram" | "edge_ngram" | "edgeNGram" => {
                let only_first = ty.starts_with("edge");
                let (shortest, longest) = self.gram_lengths(options, "NGram", only_first)?;
                let keeps = options.flag("preserve_original")?.unwrap_or(false);
                if options.text("side")?.is_some_and(|side| side != "front") {
                    return Err(options.invalid("[side] can only be front: for back, put a [reverse] filter before and after this one"));
                }
                TokenFilter::Grams { shortest, longest, only_first, keeps }
            }
            "pattern_replace" => {
                let pattern = options.pattern(None)?;
                let by = options.text("replacement")?.unwrap_or_default();
                let all = options.flag("all")?.unwrap_or(true);
                let by = replacement_of_java(&by, &pattern);
                TokenFilter::Replace { pattern, by, all }
            }
            _ => return Ok(None),
        };
        options.finish()?;
        Ok(Some(filter))
    }

    fn gram_lengths(
        &self,
        options: &mut Options<'_>,
        what: &str,
        only_first: bool,
    ) -> Result<(usize, usize)> {
        let shortest = options.number("min_gram")?.unwrap_or(1);
        let longest = options.number("max_gram")?.unwrap_or(2);
        if shortest < 1 || shortest > longest || longest > GRAM_MAX {
            return Err(options.invalid(&format!(
                "[min_gram] is at least 1 and at most [max_gram], and that is at most {GRAM_MAX}"
            )));
        }
        let (least, most) = (longest - shortest, self.max_ngram_diff.unwrap_or(GRAM_LENGTHS));
        if !only_first && least > most {
            return Err(Error::invalid(format!(
                "The difference between max_gram and min_gram in {what} must be less than or equal to: [{most}] but was \
                 [{least}]. This limit can be set by changing the [index.max_ngram_diff] index level setting."
            )));
        }
        Ok((shortest, longest))
    }
}

/// What is found in fields would change.
fn unchangeable(name: &str) -> Error {
    Error::invalid(format!(
        "Can't update the setting [index.{name}]: fields may already use it; create an index with the new definition and \
         _reindex into it"
    ))
}

fn char_filter_of(ty: &str, options: &mut Options<'_>) -> Result<Option<CharFilter>> {
    let filter = match ty {
        "html_strip" => {
            let kept = options.list("escaped_tags")?.unwrap_or_default();
            CharFilter::Html { kept: kept.iter().map(|tag| tag.to_ascii_lowercase()).collect() }
        }
        "mapping" => {
            let rules = options.list("mappings")?.unwrap_or_default();
            if rules.is_empty() {
                return Err(options.invalid(
                    "mapping requires either `mappings` or `mappings_path` to be configured, and \
                     files are not read: give [mappings], a list of [a => b]",
                ));
            }
            let mut all = BTreeMap::new();
            for rule in rules {
                let wrong = || options.invalid(&format!("Invalid Mapping Rule : [{rule}]"));
                let (from, to) = rule.split_once("=>").ok_or_else(wrong)?;
                let (from, to) = (unescaped(from.trim()), unescaped(to.trim()));
                let (from, to) = (from.ok_or_else(wrong)?, to.ok_or_else(wrong)?);
                if from.is_empty() {
                    return Err(wrong());
                }
                all.insert(from, to);
            }
            CharFilter::Mapping(all)
        }
        "pattern_replace" => {
            let pattern = options.pattern(None)?;
            let by = options.text("replacement")?.unwrap_or_default();
            let by = replacement_of_java(&by, &pattern);
            CharFilter::Replace { pattern, by }
        }
        _ => return Ok(None),
    };
    options.finish()?;
    Ok(Some(filter))
}

/// A part that a request gives.
enum Part {
    Named(String),
    Described { ty: String, name: String, options: Map<String, Value> },
}

impl Part {
    fn read(kind: &str, value: &Value) -> Result<Part> {
        match value {
            Value::String(name) => Ok(Part::Named(name.clone())),
            Value::Object(options) => {
                let ty = options.get("type").and_then(Value::as_str);
                let ty = ty.ok_or_else(|| Error::invalid(format!("a {kind} needs a [type]")))?.to_owned();
                // What is described in the request has no name of its own.
                let name = format!("__anonymous__{ty}");
                let mut options = options.clone();
                options.remove("type");
                Ok(Part::Described { ty, name, options })
            }
            other => Err(Error::invalid(format!("[{kind}] takes names or objects, not {other}"))),
        }
    }
}

/// The options of one definition. Those that nobody asked for are refused at the end.
struct Options<'a> {
    kind: &'a str,
    name: &'a str,
    members: &'a Map<String, Value>,
    known: BTreeSet<String>,
}

impl<'a> Options<'a> {
    fn new(kind: &'a str, name: &'a str, members: &'a Map<String, Value>) -> Options<'a> {
        Options { kind, name, members, known: BTreeSet::from(["version".to_owned()]) }
    }

    fn invalid(&self, what: &str) -> Error {
        Error::invalid(format!("{} [{}]: {what}", self.kind, self.name))
    }

    fn unknown_type(&self, ty: &str, known: &[&str]) -> Error {
        let (kind, name, known) = (self.kind, self.name, listed(known));
        Error::invalid(format!("Unknown {kind} type [{ty}] for [{name}]: there are {known}"))
    }

    fn has(&self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    fn ignore(&mut self, keys: &[&str]) {
        self.known.extend(keys.iter().map(|key| (*key).to_owned()));
    }

    fn take(&mut self, key: &str) -> Option<&'a Value> {
        self.known.insert(key.to_owned());
        self.members.get(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(_) | Value::Object(_)) => Err(self.invalid(&format!("[{key}] is one text"))),
            Some(value) => Ok(Some(text_of(value))),
        }
    }

    fn needed_type(&mut self) -> Result<String> {
        self.text("type")?.ok_or_else(|| self.invalid("it has no [type]"))
    }

    fn number(&mut self, key: &str) -> Result<Option<usize>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let number = text.parse::<usize>().ok();
        let what = || format!("Failed to parse value [{text}] for setting [{key}]: it is a whole number");
        number.map(Some).ok_or_else(|| self.invalid(&what()))
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>> {
        match self.text(key)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(self.invalid(&format!(
                "Failed to parse value [{other}] of [{key}] as only [true] or [false] are allowed."
            ))),
        }
    }

    fn character(&mut self, key: &str) -> Result<Option<char>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(Some(only)),
            _ => Err(self.invalid(&format!("[{key}] must be a one char value"))),
        }
    }

    /// A list, or a text of what commas separate.
    fn list(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(all)) => {
                if all.iter().any(|value| value.is_array() || value.is_object()) {
                    return Err(self.invalid(&format!("[{key}] is a list of texts")));
                }
                Ok(Some(all.iter().map(text_of).collect()))
            }
            Some(Value::Object(_)) => Err(self.invalid(&format!("[{key}] is a list of texts"))),
            Some(one) => {
                let text = text_of(one);
                Ok(Some(text.split(',').map(|part| part.trim().to_owned()).collect()))
            }
        }
    }

    fn stopwords(&mut self) -> Result<Option<BTreeSet<String>>> {
        let Some(list) = self.list("stopwords")? else { return Ok(None) };
        let mut words = BTreeSet::new();
        for word in list {
            match word.as_str() {
                "_english_" => words.extend(english()),
                "_none_" | "" => {}
                named if named.len() > 2 && named.starts_with('_') && named.ends_with('_') => {
                    return Err(self.invalid(&format!(
                        "the list [{named}] of [stopwords] is not known: give the words, or [_english_], or [_none_]"
                    )));
                }
                _ => drop(words.insert(word)),
            }
        }
        Ok(Some(words))
    }

    fn pattern(&mut self, default: Option<&str>) -> Result<Pattern> {
        let written = self.text("pattern")?.or(default.map(str::to_owned));
        let written = written.ok_or_else(|| self.invalid("pattern is missing"))?;
        let flags = self.text("flags")?.unwrap_or_default();
        let (kind, name) = (self.kind, self.name);
        Pattern::of_java(&written, &flags).map_err(|e| e.context(format!("{kind} [{name}] is not valid")))
    }

    fn finish(&self) -> Result<()> {
        match self.members.keys().find(|key| !self.known.contains(*key)) {
            Some(other) => Err(self.invalid(&format!("[{other}] is not supported"))),
            None => Ok(()),
        }
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("[{name}]")).collect::<Vec<_>>().join(", ")
}

fn english() -> BTreeSet<String> {
    STOP_WORDS.iter().map(|word| (*word).to_owned()).collect()
}

fn cased(words: BTreeSet<String>, any_case: bool) -> BTreeSet<String> {
    let lower = |word: String| super::lowered(word.into()).into_owned();
    if any_case { words.into_iter().map(lower).collect() } else { words }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What Java calls white space, in a class of a regular expression: no space that joins words, and some control characters.
const WHITE_SPACE: &str =
    r"\t-\r\x{1C}-\x{20}\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200A}\x{2028}\x{2029}\x{205F}\x{3000}";

/// What a class of a regular expression has for characters, and for kinds of them; none where there are none.
fn class_of(kinds: &[String]) -> std::result::Result<Option<String>, String> {
    let mut class = String::new();
    for kind in kinds {
        match kind.as_str() {
            "letter" => class.push_str(r"\p{L}"),
            "digit" => class.push_str(r"\p{Nd}"),
            "whitespace" => class.push_str(WHITE_SPACE),
            "punctuation" => class.push_str(r"\p{P}"),
            "symbol" => class.push_str(r"\p{S}"),
            other => {
                let own = unescaped(other).unwrap_or_else(|| other.to_owned());
                let mut characters = own.chars();
                let (Some(only), None) = (characters.next(), characters.next()) else {
                    return Err(format!("[{other}] is neither a character nor a kind of characters"));
                };
                class.push_str(&format!(r"\x{{{:X}}}", u32::from(only)));
            }
        }
    }
    Ok((!class.is_empty()).then_some(class))
}

/// A text in which a backslash stands before characters that are hard to write; none where one is the last.
fn unescaped(text: &str) -> Option<String> {
    let mut own = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            own.push(c);
            continue;
        }
        match characters.next()? {
            'n' => own.push('\n'),
            't' => own.push('\t'),
            'r' => own.push('\r'),
            'b' => own.push('\u{8}'),
            'f' => own.push('\u{c}'),
            'u' => {
                let digits: String = characters.by_ref().take(4).collect();
                own.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
            }
            other => own.push(other),
        }
    }
    Some(own)
}

/// Values by the dotted names of what they are inside of.
fn flatten<'a>(name: &str, value: &'a Value, all: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                match name {
                    "" => flatten(member, value, all),
                    name => flatten(&format!("{name}.{member}"), value, all),
                }
            }
        }
        leaf => all.push((name.to_owned(), leaf)),
    }
}
