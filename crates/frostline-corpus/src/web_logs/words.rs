//! What the generated logs are made of.

/// A country with its share of visitors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Country {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) continent: &'static str,
    /// The first number of its clients' addresses.
    pub(super) network: u8,
    pub(super) weight: u32,
    pub(super) cities: &'static [&'static str],
}

/// A browser or robot with its share of clients; a version number goes between `start` and `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent {
    pub(super) start: &'static str,
    pub(super) end: &'static str,
    pub(super) browser: &'static str,
    pub(super) os: &'static str,
    pub(super) device: &'static str,
    pub(super) is_bot: bool,
    pub(super) weight: u32,
}

const fn country(
    code: &'static str,
    name: &'static str,
    continent: &'static str,
    network: u8,
    weight: u32,
    cities: &'static [&'static str],
) -> Country {
    Country { code, name, continent, network, weight, cities }
}

pub(super) const COUNTRIES: [Country; 24] = [
    country(
        "US",
        "United States",
        "North America",
        23,
        300,
        &["New York", "Chicago", "Dallas", "Seattle", "Boston"],
    ),
    country("DE", "Germany", "Europe", 46, 120, &["Berlin", "Hamburg", "Munich", "Cologne", "Leipzig"]),
    country("GB", "United Kingdom", "Europe", 51, 90, &["London", "Manchester", "Leeds", "Bristol"]),
    country("FR", "France", "Europe", 62, 80, &["Paris", "Lyon", "Marseille", "Lille"]),
    country("IN", "India", "Asia", 49, 75, &["Mumbai", "Delhi", "Bengaluru", "Chennai"]),
    country("CN", "China", "Asia", 36, 60, &["Beijing", "Shanghai", "Shenzhen", "Wuhan"]),
    country("BR", "Brazil", "South America", 177, 50, &["Rio de Janeiro", "Recife", "Curitiba"]),
    country("JP", "Japan", "Asia", 126, 45, &["Tokyo", "Osaka", "Nagoya"]),
    country("CA", "Canada", "North America", 24, 40, &["Toronto", "Montreal", "Vancouver"]),
    country("NL", "Netherlands", "Europe", 77, 35, &["Amsterdam", "Rotterdam", "Utrecht"]),
    country("PL", "Poland", "Europe", 83, 30, &["Warsaw", "Krakow", "Gdansk"]),
    country("ES", "Spain", "Europe", 88, 30, &["Madrid", "Barcelona", "Valencia"]),
    country("IT", "Italy", "Europe", 79, 28, &["Rome", "Milan", "Turin"]),
    country("AU", "Australia", "Oceania", 101, 25, &["Sydney", "Melbourne", "Perth"]),
    country("MX", "Mexico", "North America", 189, 22, &["Mexico City", "Puebla", "Monterrey"]),
    country("SE", "Sweden", "Europe", 81, 18, &["Stockholm", "Gothenburg", "Uppsala"]),
    country("KR", "South Korea", "Asia", 112, 18, &["Seoul", "Busan"]),
    country("UA", "Ukraine", "Europe", 91, 15, &["Kyiv", "Lviv", "Odesa"]),
    country("TR", "Turkey", "Asia", 78, 15, &["Istanbul", "Ankara", "Izmir"]),
    country("ZA", "South Africa", "Africa", 105, 10, &["Cape Town", "Johannesburg", "Durban"]),
    country("NG", "Nigeria", "Africa", 41, 8, &["Lagos", "Abuja"]),
    country("AR", "Argentina", "South America", 181, 8, &["Buenos Aires", "Rosario"]),
    country("FI", "Finland", "Europe", 85, 6, &["Helsinki", "Tampere", "Turku"]),
    country("IS", "Iceland", "Europe", 82, 1, &["Reykjavik"]),
];

const fn agent(
    start: &'static str,
    end: &'static str,
    about: [&'static str; 3],
    is_bot: bool,
    weight: u32,
) -> Agent {
    let [browser, os, device] = about;
    Agent { start, end, browser, os, device, is_bot, weight }
}

const SAFARI: &str = " Safari/537.36";

pub(super) const AGENTS: [Agent; 14] = [
    agent(
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0",
        SAFARI,
        ["Chrome", "Windows", "desktop"],
        false,
        300,
    ),
    agent(
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0",
        " Mobile Safari/537.36",
        ["Chrome Mobile", "Android", "phone"],
        false,
        220,
    ),
    agent(
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17",
        " Mobile/15E148 Safari/604.1",
        ["Mobile Safari", "iOS", "phone"],
        false,
        180,
    ),
    agent(
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17",
        " Safari/605.1.15",
        ["Safari", "macOS", "desktop"],
        false,
        80,
    ),
    agent(
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0",
        SAFARI,
        ["Chrome", "macOS", "desktop"],
        false,
        70,
    ),
    agent(
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132",
        "",
        ["Firefox", "Windows", "desktop"],
        false,
        60,
    ),
    agent(
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128",
        "",
        ["Firefox", "Linux", "desktop"],
        false,
        25,
    ),
    agent(
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0",
        " Safari/537.36 Edg/131.0.0.0",
        ["Edge", "Windows", "desktop"],
        false,
        50,
    ),
    agent(
        "Mozilla/5.0 (iPad; CPU OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17",
        " Mobile/15E148 Safari/604.1",
        ["Mobile Safari", "iOS", "tablet"],
        false,
        25,
    ),
    agent(
        "Mozilla/5.0 (compatible; Googlebot/2",
        "; +http://www.google.com/bot.html)",
        ["Googlebot", "other", "robot"],
        true,
        20,
    ),
    agent(
        "Mozilla/5.0 (compatible; bingbot/2",
        "; +http://www.bing.com/bingbot.htm)",
        ["bingbot", "other", "robot"],
        true,
        12,
    ),
    agent("curl/8", ".0", ["curl", "other", "robot"], true, 6),
    agent("python-requests/2", ".1", ["python-requests", "other", "robot"], true, 6),
    agent("Go-http-client/2", "", ["Go-http-client", "other", "robot"], true, 4),
];

pub(super) const HOSTS: [(&str, &str); 12] = [
    ("web-eu-1", "eu-central-1"),
    ("web-eu-2", "eu-central-1"),
    ("web-eu-3", "eu-central-1"),
    ("web-eu-4", "eu-west-1"),
    ("web-eu-5", "eu-west-1"),
    ("web-us-1", "us-east-1"),
    ("web-us-2", "us-east-1"),
    ("web-us-3", "us-east-1"),
    ("web-us-4", "us-west-2"),
    ("web-us-5", "us-west-2"),
    ("web-ap-1", "ap-south-1"),
    ("web-ap-2", "ap-south-1"),
];

pub(super) const SECTIONS: [&str; 9] =
    ["/products", "/blog", "/docs", "/support", "/account", "/search", "/offers", "/news", "/community"];

/// What does not exist and is requested nevertheless, most wanted first.
pub(super) const BROKEN_PATHS: [&str; 40] = [
    "/favicon.png",
    "/wp-login.php",
    "/old/catalog/spring-sale",
    "/.env",
    "/apple-touch-icon-120x120.png",
    "/xmlrpc.php",
    "/products/discontinued/walnut-desk",
    "/docs/1.0/getting-started",
    "/phpmyadmin/index.php",
    "/ads.txt",
    "/blog/feed.xml",
    "/.git/config",
    "/assets/app-000000.js",
    "/wp-admin/setup-config.php",
    "/api/v0/status",
    "/downloads/manual.pdf",
    "/robots.txt.bak",
    "/cgi-bin/luci",
    "/community/forum/index.php",
    "/news/2014/opening",
    "/sitemap_index.xml",
    "/actuator/health",
    "/server-status",
    "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
    "/assets/images/logo-old.png",
    "/boaform/admin/formLogin",
    "/account/legacy/login",
    "/config.json",
    "/solr/admin/info/system",
    "/support/ticket/new.asp",
    "/offers/black-friday-2019",
    "/.well-known/security.txt",
    "/login.jsp",
    "/manager/html",
    "/HNAP1/",
    "/docs/api/v1/reference.html",
    "/images/banner_2016.jpg",
    "/remote/fgt_lang",
    "/owa/auth/logon.aspx",
    "/debug/default/view",
];

pub(super) const PATH_WORDS: [&str; 64] = [
    "amber", "anchor", "autumn", "basket", "beacon", "birch", "blanket", "bottle", "bridge", "candle",
    "canvas", "carbon", "cedar", "cobalt", "copper", "coral", "cotton", "crystal", "delta", "desert",
    "ember", "falcon", "feather", "forest", "garden", "glacier", "granite", "harbor", "hazel", "horizon",
    "island", "ivory", "jasper", "juniper", "lantern", "laurel", "linen", "lumen", "maple", "marble",
    "meadow", "mercury", "meteor", "midnight", "monsoon", "mosaic", "nectar", "nimbus", "oak", "ocean",
    "olive", "onyx", "opal", "orchard", "pebble", "pine", "prairie", "quartz", "raven", "river", "saffron",
    "silver", "summit", "willow",
];
