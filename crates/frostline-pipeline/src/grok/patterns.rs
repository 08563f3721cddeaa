//! The patterns that every `grok` has, by the names that Logstash gave them.
//!
//! Numbers and addresses end where a word does instead of looking ahead. Where the fields of a pattern have other names
//! with `ecs_compatibility: v1`, [`ECS`] has it.

/// The pattern of a name.
pub(super) fn get(name: &str, is_ecs: bool) -> Option<&'static str> {
    let ecs = if is_ecs { ECS } else { &[] };
    let mut all = ecs.iter().chain(PATTERNS);
    all.find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
}

const PATTERNS: &[(&str, &str)] = &[
    // Words and numbers.
    ("USERNAME", r"[a-zA-Z0-9._-]+"),
    ("USER", r"%{USERNAME}"),
    (
        "EMAILLOCALPART",
        r"[a-zA-Z0-9!#$%&'*+\-/=?^_`{|}~]{1,64}(?:\.[a-zA-Z0-9!#$%&'*+\-/=?^_`{|}~]{1,62}){0,63}",
    ),
    ("EMAILADDRESS", r"%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("INT", r"[+-]?[0-9]+"),
    ("BASE10NUM", r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"),
    ("NUMBER", r"%{BASE10NUM}"),
    ("BASE16NUM", r"[+-]?(?:0x)?[0-9A-Fa-f]+"),
    ("BASE16FLOAT", r"[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b"),
    ("POSINT", r"\b[1-9][0-9]*\b"),
    ("NONNEGINT", r"\b[0-9]+\b"),
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("QUOTEDSTRING", r#"(?:"(?:\\.|[^\\"])*"|'(?:\\.|[^\\'])*'|`(?:\\.|[^\\`])*`)"#),
    ("QS", r"%{QUOTEDSTRING}"),
    ("UUID", r"[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}"),
    ("URN", r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:(?:%[0-9a-fA-F]{2}|[0-9A-Za-z()+,.:=@;$_!*'/?#-])+"),
    // Addresses.
    ("MAC", r"(?:%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC})"),
    ("CISCOMAC", r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}"),
    ("WINDOWSMAC", r"(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}"),
    ("COMMONMAC", r"(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}"),
    ("IPV4OCTET", r"(?:25[0-5]|2[0-4][0-9]|[0-1]?[0-9]{1,2})"),
    ("IPV4", r"(?:%{IPV4OCTET}\.){3}%{IPV4OCTET}\b"),
    (
        "IPV6",
        concat!(
            r"(?:(?:[0-9A-Fa-f]{1,4}:){6}(?:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}|%{IPV4})",
            r"|(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{0,4}::(?:[0-9A-Fa-f]{1,4}:){0,6}(?:%{IPV4}|[0-9A-Fa-f]{1,4})?",
            r")(?:%[0-9A-Za-z]+)?",
        ),
    ),
    ("IP", r"(?:%{IPV6}|%{IPV4})"),
    ("HOSTNAME", r"\b[0-9A-Za-z][0-9A-Za-z_-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z_-]{0,62})*(?:\.|\b)"),
    ("HOST", r"%{HOSTNAME}"),
    ("IPORHOST", r"(?:%{IP}|%{HOSTNAME})"),
    ("HOSTPORT", r"%{IPORHOST}:%{POSINT}"),
    // Paths.
    ("PATH", r"(?:%{UNIXPATH}|%{WINPATH})"),
    ("UNIXPATH", r"(?:/[[:alnum:]_%!$@:.,+~-]*)+"),
    ("TTY", r"/dev/(?:pts|tty(?:[pq])?)(?:\w+)?/?[0-9]+"),
    ("WINPATH", r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+"),
    ("URIPROTO", r"[A-Za-z](?:[A-Za-z0-9+\-.]+)+"),
    ("URIHOST", r"%{IPORHOST}(?::%{POSINT})?"),
    ("URIPATH", r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_\-]*)+"),
    ("URIQUERY", r"[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\-\[\]<>]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", r"%{URIPATH}(?:\?%{URIQUERY})?"),
    ("URI", r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATH}(?:\?%{URIQUERY})?)?"),
    // Times.
    (
        "MONTH",
        r"\b(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|[Mm]ay|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?|[Ss]ep(?:tember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\b",
    ),
    ("MONTHNUM", r"(?:1[0-2]|0?[1-9])"),
    ("MONTHNUM2", r"(?:0[1-9]|1[0-2])"),
    ("MONTHDAY", r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])"),
    (
        "DAY",
        r"(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)",
    ),
    ("YEAR", r"(?:[0-9][0-9]){1,2}"),
    ("HOUR", r"(?:2[0123]|[01]?[0-9])"),
    ("MINUTE", r"[0-5][0-9]"),
    ("SECOND", r"(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?"),
    ("TIME", r"%{HOUR}:%{MINUTE}(?::%{SECOND})"),
    ("DATE_US", r"%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}"),
    ("DATE_EU", r"%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}"),
    ("ISO8601_TIMEZONE", r"(?:Z|[+-]%{HOUR}(?::?%{MINUTE})?)"),
    ("ISO8601_SECOND", r"%{SECOND}"),
    (
        "TIMESTAMP_ISO8601",
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?",
    ),
    ("DATE", r"(?:%{DATE_US}|%{DATE_EU})"),
    ("DATESTAMP", r"%{DATE}[- ]%{TIME}"),
    ("TZ", r"(?:[APMCE][SD]T|UTC)"),
    ("DATESTAMP_RFC822", r"%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}"),
    ("DATESTAMP_RFC2822", r"%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}"),
    ("DATESTAMP_OTHER", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    ("DATESTAMP_EVENTLOG", r"%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}"),
    ("HTTPDERROR_DATE", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}"),
    ("HTTPDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("SYSLOGTIMESTAMP", r"%{MONTH} +%{MONTHDAY} %{TIME}"),
    // Logs.
    ("LOGLEVEL", LOGLEVEL),
    ("PROG", r"[!-Z\\^-~]+"),
    ("SYSLOGPROG", r"%{PROG:program}(?:\[%{POSINT:pid}\])?"),
    ("SYSLOGHOST", r"%{IPORHOST}"),
    ("SYSLOGFACILITY", r"<%{NONNEGINT:facility}.%{NONNEGINT:priority}>"),
    (
        "SYSLOGBASE",
        r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    ),
    ("SYSLOGLINE", r"%{SYSLOGBASE2} %{GREEDYDATA:message}"),
    (
        "SYSLOGBASE2",
        r"(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp8601}) (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource}(?: %{SYSLOGPROG}:|)",
    ),
    ("HTTPDUSER", r"(?:%{EMAILADDRESS}|%{USER})"),
    (
        "COMMONAPACHELOG",
        r#"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" (?:-|%{NUMBER:response}) (?:-|%{NUMBER:bytes})"#,
    ),
    ("COMBINEDAPACHELOG", r"%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}"),
    ("HTTPD_COMMONLOG", r"%{COMMONAPACHELOG}"),
    ("HTTPD_COMBINEDLOG", r"%{COMBINEDAPACHELOG}"),
    (
        "HTTPD20_ERRORLOG",
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] (?:\[client %{IPORHOST:clientip}\] )?%{GREEDYDATA:message}",
    ),
    ("JAVACLASS", r"(?:[a-zA-Z$_][a-zA-Z$_0-9]*\.)*[a-zA-Z$_][a-zA-Z$_0-9]*"),
    ("JAVAFILE", r"[a-zA-Z$_0-9. -]+"),
    ("JAVAMETHOD", r"(?:<(?:cl)?init>|[a-zA-Z$_][a-zA-Z$_0-9]*)"),
    ("JAVALOGMESSAGE", r".*"),
];

const LOGLEVEL: &str = concat!(
    r"(?:[Aa]lert|ALERT|[Tt]race|TRACE|[Dd]ebug|DEBUG|[Nn]otice|NOTICE|[Ii]nfo(?:rmation)?|INFO(?:RMATION)?",
    r"|[Ww]arn(?:ing)?|WARN(?:ING)?|[Ee]rr(?:or)?|ERR(?:OR)?|[Cc]rit(?:ical)?|CRIT(?:ICAL)?|[Ff]atal|FATAL",
    r"|[Ss]evere|SEVERE|EMERG(?:ENCY)?|[Ee]merg(?:ency)?)",
);

/// Those whose fields are called as the Elastic Common Schema calls them.
const ECS: &[(&str, &str)] = &[
    ("SYSLOGPROG", r"%{PROG:process.name}(?:\[%{POSINT:process.pid:int}\])?"),
    ("SYSLOGFACILITY", r"<%{NONNEGINT:log.syslog.facility.code:int}.%{NONNEGINT:log.syslog.priority:int}>"),
    (
        "SYSLOGBASE",
        r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host.hostname} %{SYSLOGPROG}:",
    ),
    (
        "SYSLOGBASE2",
        r"(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp}) (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host.hostname}(?: %{SYSLOGPROG}:|)",
    ),
    (
        "COMMONAPACHELOG",
        r#"%{IPORHOST:source.address} (?:-|%{HTTPDUSER:apache.access.user.identity}) (?:-|%{HTTPDUSER:user.name}) \[%{HTTPDATE:timestamp}\] "(?:%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?|%{DATA})" (?:-|%{INT:http.response.status_code:int}) (?:-|%{INT:http.response.body.bytes:int})"#,
    ),
    (
        "COMBINEDAPACHELOG",
        r#"%{COMMONAPACHELOG} "(?:-|%{DATA:http.request.referrer})" "(?:-|%{DATA:user_agent.original})""#,
    ),
    (
        "HTTPD20_ERRORLOG",
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:log.level}\] (?:\[client %{IPORHOST:source.address}\] )?%{GREEDYDATA:message}",
    ),
];

/// The names of all.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PATTERNS.iter().map(|(name, _)| *name)
}
