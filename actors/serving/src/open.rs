//! Health and metrics over plain HTTP, for everybody who reaches the port: no client is authenticated, so the address of the port decides who may ask. Upstream's
//! konnectivity serves them so.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{Method, Request};
use hyper::body::Incoming;
use oarlock_runtime::System;
use tokio::net::TcpListener;

use crate::answer::{self, Answer, Refusal};
use crate::check::Check;
use crate::listener::{Chain, Handler, listen};
use crate::{LISTENER, MAX_CONNECTIONS, actors, checks, metrics};

/// What a port answers besides `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `/healthz` and `/livez`; `/readyz` and upstream's older name `/ready`.
    Health,
    /// `/debug/actors`.
    Admin,
}

/// The handler of a port. Clones share the checks.
#[derive(Clone, Debug)]
struct Open {
    system: System,
    scope: Scope,
    live: Arc<[Check]>,
    ready: Arc<[Check]>,
}

/// Serves on a bound socket until the process ends. `ready` are the conditions of readiness besides that no shutdown was requested. Returns the socket's address.
///
/// # Errors
/// When the socket has no address, or the runtime refuses the actor.
pub async fn serve(
    system: &System,
    socket: TcpListener,
    scope: Scope,
    ready: Vec<Check>,
) -> Result<SocketAddr, oarlock_runtime::Error> {
    let ready = [checks::ready(system, Vec::new()), ready].concat().into();
    let open = Open { system: system.clone(), scope, live: checks::live(system).into(), ready };
    listen(system, &LISTENER, socket, None, MAX_CONNECTIONS, open).await
}

/// Binds a port, unless it is 0.
///
/// # Errors
/// When the address cannot be bound.
pub async fn bind(address: IpAddr, port: u16) -> std::io::Result<Option<TcpListener>> {
    match port {
        0 => Ok(None),
        port => TcpListener::bind((address, port)).await.map(Some),
    }
}

impl Open {
    async fn try_answer(&self, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Refusal::new(405, "405: Method Not Allowed"));
        }
        Ok(match (request.uri().path(), self.scope) {
            ("/metrics", _) => metrics::answer(&self.system, request.headers()).await?,
            ("/debug/actors", Scope::Admin) => answer::whole(200, "application/json", actors::json(&self.system)),
            ("/healthz" | "/livez", Scope::Health) => checks::answer("healthz", "", &self.live, request),
            ("/readyz" | "/ready", Scope::Health) => checks::answer("readyz", "", &self.ready, request),
            _ => return Err(Refusal::not_found()),
        })
    }
}

impl Handler for Open {
    type Peer = ();

    fn peer(&self, _: Option<Chain>) {}

    async fn answer(&self, (): &(), request: Request<Incoming>) -> Answer {
        self.try_answer(&request).await.unwrap_or_else(Answer::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use oarlock_runtime::Options;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    /// Returns the code and the body of the answer to a request.
    async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
        let mut io = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        io.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        io.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[tokio::test]
    async fn each_port_answers_everybody_and_only_what_its_scope_has() {
        let system = System::start(Options::default()).await.unwrap();
        let is_ready = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_ready);
        let check =
            Check::new(
                "agents",
                move || {
                    if seen.load(Ordering::Relaxed) { Ok(()) } else { Err("no agent".to_owned()) }
                },
            );
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let health = serve(&system, bind().await, Scope::Health, vec![check]).await.unwrap();
        let admin = serve(&system, bind().await, Scope::Admin, Vec::new()).await.unwrap();
        assert_eq!(ask(health, "GET", "/healthz").await, (200, "ok".to_owned()));
        for path in ["/ready", "/readyz"] {
            let (code, text) = ask(health, "GET", path).await;
            assert!(code == 500 && text.contains("[-]agents failed"), "{path}: {code} {text}");
        }
        is_ready.store(true, Ordering::Relaxed);
        assert_eq!(ask(health, "GET", "/ready").await, (200, "ok".to_owned()));
        for port in [health, admin] {
            assert!(ask(port, "GET", "/metrics").await.1.contains("kubernetes_build_info"));
            assert_eq!(ask(port, "POST", "/metrics").await.0, 405);
            assert_eq!(ask(port, "GET", "/else").await.0, 404);
        }
        assert_eq!((ask(health, "GET", "/debug/actors").await.0, ask(admin, "GET", "/healthz").await.0), (404, 404));
        assert_eq!(ask(admin, "GET", "/debug/actors").await.0, 200);
    }
}
