//! Which series a query of Prometheus asks for.

/// `metric{label="value"}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// The metric.
    pub metric: String,
    /// Its matchers as they are written, with their braces; empty without any.
    pub matchers: String,
}

impl Selector {
    /// A query for just these series.
    #[must_use]
    pub fn query(&self) -> String {
        format!("{}{}", self.metric, self.matchers)
    }

    /// The labels that it matches on.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        let mut rest = self.matchers.as_str();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        while let Some(at) = rest.find(is_name) {
            let name = &rest[at..];
            let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
            labels.push(name[..end].to_owned());
            let value = name.find('"').map_or("", |at| &name[at..]);
            rest = &value[quoted(value)..];
        }
        labels
    }
}

/// Words after which a list of labels stands in parentheses.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];
const AGGREGATIONS: [&str; 12] =
    ["sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"];

/// All that a query selects, in the order in which it stands there.
#[must_use]
pub fn selectors(query: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        if first == '"' {
            rest = &rest[quoted(rest)..];
        } else if first == '[' {
            rest = &rest[rest.find(']').map_or(rest.len(), |at| at + 1)..];
        } else if name == 0 {
            rest = &rest[first.len_utf8()..];
        } else {
            let word = &rest[..name];
            let after = rest[name..].trim_start();
            if BEFORE_LABELS.contains(&word) {
                rest = if after.starts_with('(') { &after[after.find(')').map_or(0, |at| at + 1)..] } else { after };
            } else if first.is_ascii_digit()
                || OPERATORS.contains(&word)
                || AGGREGATIONS.contains(&word)
                || after.starts_with('(')
            {
                rest = after;
            } else {
                let braces = if after.starts_with('{') { closing(after) } else { 0 };
                found.push(Selector { metric: word.to_owned(), matchers: after[..braces].to_owned() });
                rest = &after[braces..];
            }
        }
    }
    found
}

/// Where the text in quotes that stands first ends.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Where the braces that stand first end.
fn closing(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' => at += quoted(&text[at..]),
            '}' => return at + 1,
            _ => at += c.len_utf8(),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Vec<String> {
        selectors(query).iter().map(Selector::query).collect()
    }

    #[test]
    fn selectors_are_found_among_all_else() {
        assert_eq!(
            found(
                r#"sum by (job, region) (rate(a_total{x=~"} by (y)", z!="\"b"}[5m])) / on (job) group_left (n) c:d:e > 14.4 * 0.1"#
            ),
            [r#"a_total{x=~"} by (y)", z!="\"b"}"#, "c:d:e"]
        );
        assert_eq!(
            found("histogram_quantile(0.99, sum(rate(a_bucket[$__rate_interval])) by (le)) unless count(b)"),
            ["a_bucket", "b"]
        );
        assert_eq!(
            found("topk(10, 1 - a offset 1h) or absent(b{c=\"d\"} == 0) and time() - 3h > 1e3"),
            ["a", "b{c=\"d\"}"]
        );
        let labels = selectors(r#"a{b="c=d", e!~"f,g=h",i!=""}"#)[0].labels();
        assert_eq!(labels, ["b", "e", "i"]);
    }
}
