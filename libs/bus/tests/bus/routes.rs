//! Foreign servers cannot join the NATS cluster, and askers reject the answers of a server that joined nevertheless.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use oarlock_bus::permissions::{Routes, cluster};
use oarlock_bus::proto::bus::v1::answer::Outcome;
use oarlock_bus::proto::bus::v1::{Answer, Done};
use oarlock_bus::{AskError, Pattern, Role, Subject};
use oarlock_pki::{Authority, Leaf, San, Subject as Holder, UnixTime};
use oarlock_testkit::nats::Nats;
use oarlock_testkit::{port, wait};
use prost::{Message, Name};
use tempfile::TempDir;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::timeout;

use crate::server::{Server, who};

const ASK_BUDGET: Duration = Duration::from_secs(5);

/// Certificates for routes: of the cluster, of a server for its clients, and of a foreign authority.
struct Keys(TempDir);

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = UnixTime::since_unix_epoch(SystemTime::UNIX_EPOCH.elapsed().unwrap());
        let local = || vec![San::parse("127.0.0.1")];
        for (authority, name) in [("ours", "nats-ca"), ("theirs", "nats-ca")] {
            let ca = Authority::create(name, now).unwrap();
            let write = |file: &str, text: String| {
                std::fs::write(folder.path().join(format!("{authority}-{file}")), text).unwrap();
            };
            write("ca.crt", ca.certificate_pem());
            let leaves = [
                ("route", Leaf::peer(Holder::named("nats-route"), local())),
                ("server", Leaf::server(Holder::named("nats"), local())),
            ];
            for (stem, leaf) in leaves {
                let issued = ca.issue(&leaf, now).unwrap();
                write(&format!("{stem}.crt"), issued.certificate_pem());
                write(&format!("{stem}.key"), issued.key.to_pem().to_string());
            }
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The `cluster` block of a server that connects to `servers` with a certificate and a password.
    fn routes(&self, listen: u16, servers: &[u16], certificate: &str, password: &str) -> String {
        let servers: Vec<String> = servers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        cluster(&Routes {
            servers: &servers,
            listen: &format!("127.0.0.1:{listen}"),
            certificate: &self.path(&format!("{certificate}.crt")),
            key: &self.path(&format!("{certificate}.key")),
            authority: &self.path("ours-ca.crt"),
            password,
        })
    }
}

/// Number of routes, as the server's monitoring page reports it.
fn routes(monitor: u16) -> u64 {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, monitor)).unwrap();
    stream.write_all(b"GET /routez HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("\"num_routes\":")).expect("a number");
    line.trim().trim_end_matches(',').parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_server_does_not_join() {
    let keys = Keys::new();
    let (listen, monitor) = (port::own(), port::own());
    let own = keys.routes(listen, &[listen], "ours-route", "right");
    let started = block_in_place(|| Server::start(&format!("http: \"127.0.0.1:{monitor}\"\n{own}")));
    let Some(server) = started else { return };
    let join = |block: &str| block_in_place(|| Nats::start(block)).unwrap();
    let controllers = server.join(who(Role::Controllers, "c")).await;

    // A server with all credentials can join, so the refusals below have no other cause.
    let ours = join(&keys.routes(port::own(), &[listen], "ours-route", "right"));
    block_in_place(|| {
        wait::eventually("a server of ours has joined", || if routes(monitor) > 0 { Ok(()) } else { Err(ours.said()) });
    });
    drop(ours);
    block_in_place(|| {
        wait::eventually("and is gone", || if routes(monitor) == 0 { Ok(()) } else { Err("it is there") });
    });

    let plain = format!(
        "cluster {{ name: oarlock, listen: \"127.0.0.1:{}\", routes: [\"nats://route:right@127.0.0.1:{listen}\"] }}\n",
        port::own()
    );
    // The foreign server accepts any certificate of the server it connects to.
    let with = |certificate: &str, password: &str| {
        keys.routes(port::own(), &[listen], certificate, password).replace("verify: true", "insecure: true")
    };
    let rogues = [
        ("without TLS", plain, "does not look like a TLS handshake"),
        ("with a certificate of its own", with("theirs-route", "right"), "failed to verify certificate"),
        ("with what a server shows its clients", with("ours-server", "right"), "incompatible key usage"),
        ("without the password", with("ours-route", "wrong"), "authentication error"),
    ];
    for (how, block, why) in rogues {
        let said = server.nats.said().len();
        let rogue = join(&block);
        let spy = async_nats::connect(rogue.url()).await.unwrap();
        let mut heard = spy.subscribe(">").await.unwrap();
        spy.flush().await.unwrap();
        // The foreign server is refused, tries again, and is refused again.
        block_in_place(|| {
            wait::eventually("it was turned away twice", || {
                let text = server.nats.said()[said..].to_owned();
                let refusals = text.lines().filter(|line| line.contains(why)).count();
                assert_eq!(routes(monitor), 0, "{how}: {text}");
                if refusals >= 2 { Ok(()) } else { Err(format!("{how}: {text}\n{}", rogue.said())) }
            });
        });
        let drain = Subject::member(&who(Role::Controllers, "d"), "m").unwrap();
        let asked = controllers.ask::<_, String>(&drain, &"secret".to_owned(), ASK_BUDGET).await;
        assert_eq!(asked, Err(AskError::NobodyThere), "{how}");
        spy.flush().await.unwrap();
        assert!(futures::FutureExt::now_or_never(heard.next()).is_none(), "{how}");
    }
}

/// A forged answer that no policy objects.
fn forged() -> Vec<u8> {
    let body = "nobody objects".to_owned();
    let done = Done { r#type: String::full_name(), body: body.encode_to_vec().into() };
    Answer { version: 1, outcome: Some(Outcome::Done(done)), proof: vec![7; 64].into() }.encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_foreign_server_has_joined_its_answers_count_for_nothing() {
    let (listen, monitor) = (port::own(), port::own());
    let open = format!("http: \"127.0.0.1:{monitor}\"\ncluster {{ name: oarlock, listen: \"127.0.0.1:{listen}\" }}\n");
    let Some(server) = block_in_place(|| Server::start(&open)) else { return };
    let mine = port::own();
    let block =
        format!("cluster {{ name: oarlock, listen: \"127.0.0.1:{mine}\", routes: [\"nats://127.0.0.1:{listen}\"] }}\n");
    let rogue = block_in_place(|| Nats::start(&block)).unwrap();
    let liar = async_nats::connect(rogue.url()).await.unwrap();
    let mut questions = liar.queue_subscribe("ol.svc.admission.policies", "ol".to_owned()).await.unwrap();
    liar.flush().await.unwrap();
    let (mut lies, mut judging) = (JoinSet::new(), JoinSet::new());
    lies.spawn(async move {
        while let Some(question) = questions.next().await {
            if let Some(reply) = question.reply {
                liar.publish(reply, forged().into()).await.unwrap();
                liar.flush().await.unwrap();
            }
        }
    });
    let asker = server.join(who(Role::ApiServer, "a")).await;
    let subject = Subject::service(Role::Admission, "policies").unwrap();
    let question = "may it?".to_owned();
    // Permissions of our server do not apply there: every ask receives the forged answer.
    let deadline = tokio::time::Instant::now() + wait::STEP_TIMEOUT;
    loop {
        match asker.ask::<_, String>(&subject, &question, ASK_BUDGET).await {
            Err(AskError::NobodyThere) if tokio::time::Instant::now() < deadline => {}
            answer => break assert_eq!(answer, Ok("nobody objects".to_owned())),
        }
    }
    let unproven = asker.ask_proven::<_, String>(&subject, &question, ASK_BUDGET).await;
    assert!(matches!(unproven, Err(AskError::Unproven(_))), "{unproven:?}");

    // A holder of the role's key is accepted.
    let judge = server.join(who(Role::Admission, "j")).await;
    let mut asks = judge.serve(&Pattern::service(Role::Admission, "policies").unwrap(), 4).await.unwrap();
    judging.spawn(async move {
        while let Some(ask) = asks.next().await {
            let _ = ask.answer(&"I object".to_owned()).await;
        }
    });
    lies.abort_all();
    drop(rogue);
    let proven = timeout(wait::STEP_TIMEOUT, async {
        loop {
            // A message on its way to the forger is lost with it.
            match asker.ask_proven::<_, String>(&subject, &question, ASK_BUDGET).await {
                Ok(answer) => break answer,
                Err(AskError::Timeout | AskError::Unproven(_) | AskError::NobodyThere) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(proven.await.unwrap(), "I object");
    drop(judge);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_proven_by_the_key_of_the_role_that_was_asked() {
    let Some(server) = block_in_place(|| Server::start("")) else { return };
    let scheduler = who(Role::Scheduler, "s");
    let subject = Subject::service(Role::Scheduler, "x").unwrap();
    let serving = server.join(scheduler.clone()).await;
    let mut asks = serving.serve(&Pattern::service(Role::Scheduler, "x").unwrap(), 4).await.unwrap();
    let mut answering = JoinSet::new();
    answering.spawn(async move {
        while let Some(ask) = asks.next().await {
            let _ = ask.answer(&"yes".to_owned()).await;
        }
    });
    let asker = server.join(who(Role::ApiServer, "a")).await;
    let yes = asker.ask_proven::<_, String>(&subject, &"?".to_owned(), ASK_BUDGET).await;
    assert_eq!(yes, Ok("yes".to_owned()));
    // The same answer with another role key configured, and with none.
    let other = server.seed(&who(Role::Controllers, "c")).public_key().to_owned();
    for (keys, sent) in [(Some(format!("scheduler {other}\n")), true), (None, false)] {
        let who = who(Role::ApiServer, "b");
        let options = oarlock_bus::Options { role_keys: keys, ..server.options(&who) };
        let bus = oarlock_bus::Bus::connect(options, who).unwrap();
        timeout(wait::STEP_TIMEOUT, bus.wait_for(|state| state.connected)).await.unwrap();
        let answer = bus.ask_proven::<_, String>(&subject, &"?".to_owned(), ASK_BUDGET).await;
        assert!(matches!(answer, Err(AskError::Unproven(_))), "{answer:?}");
        let service = |stats: &oarlock_bus::proto::bus::v1::KindStats| stats.kind == "service";
        let count = bus.stats().iter().find(|stats| service(stats)).map_or(0, |stats| stats.sent_messages);
        assert_eq!(count > 0, sent, "nothing leaves whose answer could not be proven");
    }
}
