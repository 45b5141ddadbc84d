//! A runtime's streaming server as containerd 1.6 has it: SPDY/3.1, remote commands up to v4, one URL for each request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oarlock_kubelet::cri::Streams;
use oarlock_runtime::gate::Gate;
use oarlock_runtime::{Phase, System};
use oarlock_schema::Str;
use oarlock_streams::remote_command::{PROTOCOL_HEADER, exit};
use oarlock_streams::spdy::{self, Connection, Receiver, Role, Sender};
use oarlock_streams::upgrade;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// The requests that the server answers.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// A command. With a terminal it is one of this file's own, see [`terminal`].
    Run(Vec<Str>, Streams),
    /// Connections to ports of this machine.
    Forward,
}

#[derive(Clone, Debug)]
pub(super) struct StreamingServer {
    address: String,
    jobs: Arc<Mutex<HashMap<String, Job>>>,
    gate: Gate,
}

impl StreamingServer {
    pub(super) async fn start(system: &System) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let gate = system.gate("streaming-server", Phase::Ingress);
        let server = Self { address, jobs: Arc::default(), gate: gate.clone() };
        let accepting = server.clone();
        let accept = async move {
            while let Ok((stream, _)) = socket.accept().await {
                let server = accepting.clone();
                let service = service_fn(move |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.answer(request)) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                accepting.gate.spawn("connection", connection).unwrap();
            }
        };
        gate.spawn("accept", accept).unwrap();
        server
    }

    /// The URL at which the job is done, once.
    pub(super) fn expect(&self, job: Job) -> String {
        let mut jobs = self.jobs.lock();
        let token = format!("/{}", jobs.len());
        jobs.insert(token.clone(), job);
        format!("http://{}{token}", self.address)
    }

    fn answer(&self, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        let Some(job) = self.jobs.lock().get(request.uri().path()).cloned() else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        assert!(!request.headers().contains_key(header::AUTHORIZATION), "credentials went to the runtime");
        if request.headers().get(header::UPGRADE).is_none_or(|protocol| protocol != spdy::UPGRADE) {
            *response.status_mut() = StatusCode::FORBIDDEN;
            return response;
        }
        let offered: Vec<_> = request.headers().get_all(PROTOCOL_HEADER).iter().collect();
        let spoken = ["v4.channel.k8s.io", "v3.channel.k8s.io", "portforward.k8s.io"];
        let chosen = offered.iter().find(|protocol| spoken.contains(&protocol.to_str().unwrap()));
        let chosen = (**chosen.expect("a known protocol")).clone();
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, spdy::UPGRADE.parse().unwrap());
        headers.insert(PROTOCOL_HEADER, chosen);
        let taken = hyper::upgrade::on(&mut request);
        let gate = self.gate.clone();
        let serve = async move {
            let (connection, carry) = spdy::start(upgrade::take(taken).await.unwrap(), Role::Server);
            let work = async {
                match job {
                    Job::Run(command, streams) => run(connection, &command, streams).await,
                    Job::Forward => forward(connection, &gate).await,
                }
            };
            // Clients may close the connection at any time.
            let (_, ()) = tokio::join!(carry, work);
        };
        self.gate.spawn("job", serve).unwrap();
        response
    }
}

/// The streams of a command by their names.
async fn streams_of(connection: &mut Connection, streams: Streams) -> HashMap<String, (Receiver, Sender)> {
    let Streams { stdin, stdout, stderr, tty } = streams;
    let count = 1 + [stdin, stdout, stderr, tty].into_iter().filter(|wanted| *wanted).count();
    let mut all = HashMap::new();
    while all.len() < count {
        let stream = connection.accept().await.expect("all streams");
        let name = stream.header("streamtype").expect("a name").to_owned();
        all.insert(name, stream.split());
    }
    all
}

async fn run(mut connection: Connection, command: &[Str], streams: Streams) {
    let mut all = streams_of(&mut connection, streams).await;
    let (_error_in, error) = all.remove("error").unwrap();
    let stdin = all.remove("stdin").map(|(receiver, _sender)| receiver);
    let stdout = all.remove("stdout").map(|(_, sender)| sender);
    if streams.tty {
        let (sizes, _) = all.remove("resize").unwrap();
        terminal(stdin.unwrap(), stdout.unwrap(), sizes).await;
        error.send(exit(0).to_json().into()).await.unwrap();
        return;
    }
    let stderr = all.remove("stderr").map(|(_, sender)| sender);
    let spawned = Command::new(&*command[0])
        .args(command[1..].iter().map(|arg| &**arg))
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(why) => {
            let why = serde_json::json!({"status": "Failure", "message": format!("{command:?}: {why}")});
            return error.send(why.to_string().into_bytes().into()).await.unwrap();
        }
    };
    let (to, out, err) = (child.stdin.take(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let input = async {
        if let (Some(from), Some(to)) = (stdin, to) {
            read_into(from, to).await;
        }
        std::future::pending::<()>().await;
    };
    let work = async { tokio::join!(write_from(out, stdout), write_from(err, stderr), child.wait()).2.unwrap() };
    let status = tokio::select! {
        status = work => status,
        () = input => unreachable!(),
    };
    let code = u8::try_from(status.code().unwrap_or(137)).unwrap();
    error.send(exit(code).to_json().into()).await.unwrap();
}

async fn read_into(mut from: Receiver, mut to: impl AsyncWrite + Unpin) {
    while let Some(part) = from.next().await {
        if to.write_all(&part).await.is_err() {
            return;
        }
    }
}

async fn write_from(mut from: impl AsyncRead + Unpin, to: Option<Sender>) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if let Some(to) = &to
            && to.send(Bytes::copy_from_slice(&buffer[..n])).await.is_err()
        {
            return;
        }
    }
}

/// A program at a terminal: prints each size, and repeats each line in capitals until the line `exit`.
async fn terminal(mut stdin: Receiver, stdout: Sender, mut sizes: Receiver) {
    stdout.send(Bytes::from_static(b"ready\r\n")).await.unwrap();
    let mut line = String::new();
    loop {
        tokio::select! {
            Some(size) = sizes.next() => {
                let size: serde_json::Value = serde_json::from_slice(&size).unwrap();
                let text = format!("size {}x{}\r\n", size["Width"], size["Height"]);
                stdout.send(text.into()).await.unwrap();
            }
            typed = stdin.next() => {
                let Some(typed) = typed else { return };
                line.push_str(&String::from_utf8_lossy(&typed));
                while let Some((whole, rest)) = line.split_once(['\r', '\n']).map(|(a, b)| (a.to_owned(), b.to_owned())) {
                    line = rest;
                    if whole == "exit" {
                        return;
                    }
                    stdout.send(format!("{}\r\n", whole.to_uppercase()).into()).await.unwrap();
                }
            }
        }
    }
}

/// Pairs of streams, `data` and `error`, for each connection.
async fn forward(mut connection: Connection, gate: &Gate) {
    let mut waiting = HashMap::new();
    while let Some(stream) = connection.accept().await {
        let id = stream.header("requestid").unwrap().to_owned();
        let Some(other) = waiting.remove(&id) else {
            waiting.insert(id, stream);
            continue;
        };
        let is_data = |stream: &spdy::Stream| stream.header("streamtype") == Some("data");
        let (data, error) = if is_data(&stream) { (stream, other) } else { (other, stream) };
        let port: u16 = data.header("port").unwrap().parse().unwrap();
        let one = async move {
            let ((receiver, sender), (_, error)) = (data.split(), error.split());
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => {
                    let (read, write) = stream.into_split();
                    let inwards = read_into(receiver, write);
                    let outwards = async {
                        write_from(read, Some(sender.clone())).await;
                        // The client may have disconnected.
                        let _ = sender.finish().await;
                    };
                    tokio::join!(inwards, outwards);
                }
                Err(why) => error.send(why.to_string().into()).await.unwrap(),
            }
            let _ = error.finish().await;
        };
        gate.spawn("forward", one).unwrap();
    }
}
