//! Functions of URLs.

use std::sync::Arc;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Key, List, Map, Opaque, Text, Url, Value};

pub(super) const ROWS: &[Row] = &[
    row("url(string): kubernetes.URL", Cost::Scan, |_, args| match args {
        [Value::String(text)] => match Url::parse(text) {
            Ok(url) => Ok(Value::Opaque(Opaque::Url(Arc::new(url)))),
            Err(why) => Err(EvalError::Failed(format!("URL parse error during conversion from string: {why}"))),
        },
        _ => unfit(),
    }),
    row("isURL(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
        _ => unfit(),
    }),
    row("kubernetes.URL.getScheme(): string", Cost::One, |_, args| text(args, |url| url.scheme.clone())),
    row("kubernetes.URL.getHost(): string", Cost::One, |_, args| text(args, |url| url.host.clone())),
    row("kubernetes.URL.getHostname(): string", Cost::One, |_, args| text(args, |url| url.split_host().0.to_owned())),
    row("kubernetes.URL.getPort(): string", Cost::One, |_, args| text(args, |url| url.split_host().1.to_owned())),
    row("kubernetes.URL.getEscapedPath(): string", Cost::One, |_, args| text(args, |url| url.path.clone())),
    row("kubernetes.URL.getQuery(): map(string, list(string))", Cost::One, |_, args| match args {
        [Value::Opaque(Opaque::Url(url))] => queries(url),
        _ => unfit(),
    }),
];

fn text<'a>(args: &[Value<'a>], part: fn(&Url) -> String) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(part(url).into()),
        _ => unfit(),
    }
}

/// Returns the query values by name, as a map of lists.
fn queries<'a>(url: &Url) -> Result<Value<'a>, EvalError> {
    let entry = |(name, values): (String, Vec<String>)| {
        let values = values.into_iter().map(Value::from).collect();
        Ok((Key::String(Text::Owned(name.into())), Value::List(List::new(values)?)))
    };
    Ok(Value::Map(Map::new(url.queries().into_iter().map(entry).collect::<Result<_, EvalError>>()?)?))
}
