//! Computes the content of a pod's `/etc/resolv.conf` (`pkg/kubelet/network/dns`).

use std::net::IpAddr;
use std::path::Path;

use oarlock_schema::views::core_v1::{Pod, PodDNSConfig};

use crate::pod_error::PodError;

/// Resolver configuration that the runtime writes for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DnsConfig {
    pub(crate) servers: Vec<String>,
    pub(crate) searches: Vec<String>,
    pub(crate) options: Vec<String>,
}

/// DNS settings of a kubelet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dns {
    /// Addresses of the cluster's DNS servers (`--cluster-dns`).
    pub(crate) servers: Vec<IpAddr>,
    /// DNS domain of the cluster (`--cluster-domain`); may be empty.
    pub(crate) domain: String,
    /// Text of the node's own `resolv.conf`; `None` when `--resolv-conf` is empty.
    pub(crate) host: Option<String>,
    /// Addresses of the node.
    pub(crate) node_ips: Vec<IpAddr>,
}

/// Reasons and messages of Warning events about a pod's resolver configuration.
pub(crate) type Warnings = Vec<(&'static str, String)>;

/// Largest number of nameservers that resolvers use.
const MAX_SERVERS: usize = 3;
/// Largest number of search domains, and of their characters together.
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
/// Length limit of a search domain.
const MAX_DOMAIN_CHARS: usize = 253;
/// Largest number of bytes read of `resolv.conf`.
const MAX_FILE_BYTES: u64 = 10 << 20;

/// Reads the node's resolver configuration.
///
/// # Errors
/// When the file cannot be read; the operating system's text.
pub(crate) async fn read(file: &Path) -> Result<String, PodError> {
    use tokio::io::AsyncReadExt;
    let mut text = Vec::new();
    let failed = |error: std::io::Error| PodError::NotReady(format!("open {}: {error}", file.display()));
    let file = tokio::fs::File::open(file).await.map_err(failed)?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).await.map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns a pod's resolver configuration, and Warning events about it.
///
/// # Errors
/// When the node's own configuration cannot be read; upstream's text.
pub(crate) fn of_pod(pod: Pod<'_>, dns: &Dns) -> Result<(DnsConfig, Warnings), PodError> {
    let mut warnings = Warnings::new();
    let host = dns.host.as_deref().map_or(Ok(DnsConfig::default()), parse);
    let host = host
        .map_err(|why| why.within(|why| format!("Encountered error while parsing resolv conf file. Error: {why}")))?;
    let spec = pod.spec();
    let wants_cluster = match spec.dns_policy() {
        "None" | "Default" => false,
        "ClusterFirst" => !spec.host_network(),
        // Includes values that the API rejects.
        _ => true,
    };
    let mut config = if spec.dns_policy() == "None" {
        DnsConfig::default()
    } else if wants_cluster && !dns.servers.is_empty() {
        DnsConfig {
            servers: dns.servers.iter().map(IpAddr::to_string).collect(),
            searches: cluster_searches(pod.metadata().namespace(), &dns.domain, host.searches),
            options: vec!["ndots:5".to_owned()],
        }
    } else {
        if wants_cluster {
            let meta = pod.metadata();
            warnings.push((
                "MissingClusterDNS",
                format!(
                    "pod: \"{}_{}({})\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                     \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
                    meta.name(),
                    meta.namespace(),
                    meta.uid()
                ),
            ));
        }
        if dns.host.is_some() { host } else { node_resolver(&dns.node_ips) }
    };
    if let Some(own) = spec.dns_config() {
        append(&mut config, own);
    }
    limit(&mut config, &mut warnings);
    Ok((config, warnings))
}

/// Returns the configuration of a node without a resolver configuration: nameservers on the node itself, which resolvers would use anyway.
fn node_resolver(node_ips: &[IpAddr]) -> DnsConfig {
    let loopback = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned();
    let mut servers: Vec<String> = node_ips.iter().map(loopback).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn cluster_searches(namespace: &str, domain: &str, host: Vec<String>) -> Vec<String> {
    if domain.is_empty() {
        return host;
    }
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    unique(own.into_iter().chain(host))
}

fn append(config: &mut DnsConfig, own: PodDNSConfig<'_>) {
    let strings = |list: oarlock_schema::views::List<'_, &str>| list.iter().map(str::to_owned).collect::<Vec<_>>();
    config.servers = unique(std::mem::take(&mut config.servers).into_iter().chain(strings(own.nameservers())));
    config.searches = unique(std::mem::take(&mut config.searches).into_iter().chain(strings(own.searches())));
    for option in own.options().iter() {
        let text = match option.value() {
            Some(value) if !value.is_empty() => format!("{}:{value}", option.name()),
            _ => option.name().to_owned(),
        };
        set_option(&mut config.options, text);
    }
}

/// Adds an option; it replaces an earlier one of the same name.
fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or("").to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

/// Drops entries over the resolvers' limits and reports them as Warning events.
fn limit(config: &mut DnsConfig, warnings: &mut Warnings) {
    if config.servers.len() > MAX_SERVERS {
        config.servers.truncate(MAX_SERVERS);
        let line = config.servers.join(" ");
        let text =
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is";
        warnings.push(("DNSConfigForming", format!("{text}: {line}")));
    }
    let before = config.searches.len();
    config.searches.truncate(MAX_SEARCHES);
    config.searches.retain(|search| search.len() <= MAX_DOMAIN_CHARS);
    while config.searches.join(" ").len() > MAX_SEARCH_CHARS {
        config.searches.pop();
    }
    if config.searches.len() < before {
        let line = config.searches.join(" ");
        let text = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is";
        warnings.push(("DNSConfigForming", format!("{text}: {line}")));
    }
}

/// Parses a `resolv.conf`: nameservers accumulate, the last search line wins, options are merged by name.
fn parse(text: &str) -> Result<DnsConfig, PodError> {
    let no_server = || PodError::NotReady("nameserver list is empty ".to_owned());
    let mut config = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => config.servers.push(words.next().ok_or_else(no_server)?.to_owned()),
            Some("search") => {
                let domain = |word: &str| word.strip_suffix('.').unwrap_or(word).to_owned();
                config.searches = words.filter(|word| *word != ".").map(domain).collect();
            }
            Some("options") => words.for_each(|word| set_option(&mut config.options, word.to_owned())),
            _ => {}
        }
    }
    Ok(config)
}

fn unique(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests;
