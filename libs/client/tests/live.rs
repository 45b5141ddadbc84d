//! Tests against a live kube-apiserver, Oarlock's or upstream's: `OARLOCK_LIVE_KUBECONFIG=… cargo test -p oarlock-client --test all -- --ignored live`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::https::TokioSpawn;
use oarlock_client::{
    Client, DeleteOptions, Endpoint, Event, Https, ListOptions, PatchType, Propagation, RawRequest, VersionMatch,
    WriteOptions,
};
use oarlock_config::Kubeconfig;
use oarlock_meta::{FieldSelector, LabelSelector, Revision};
use oarlock_schema::{Obj, Resource, resource};

fn endpoint() -> Endpoint {
    let path = std::env::var("OARLOCK_LIVE_KUBECONFIG").expect("OARLOCK_LIVE_KUBECONFIG names a kubeconfig");
    let config = Kubeconfig::read(path.as_ref()).unwrap().resolve(None).unwrap();
    Endpoint::new(&config, "oarlock-live/0.1").unwrap()
}

fn client() -> Client {
    Client::new(Arc::new(Https::new(endpoint(), Arc::new(TokioSpawn)).unwrap()))
}

fn configmaps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

fn configmap(namespace: &str, name: &str, value: &str, label: &str) -> Obj {
    let mut object = Obj::new(configmaps().ty);
    for (path, value) in
        [(&["metadata", "namespace"][..], namespace), (&["metadata", "name"][..], name), (&["data", "key"][..], value)]
    {
        assert!(object.set_at(path, value));
    }
    assert!(object.meta_mut().unwrap().raw_mut().set_at(&["labels", "test"], label));
    object
}

/// Creates a namespace for one test and run.
async fn namespace(client: &Client, test: &str) -> String {
    let name = format!("{test}-{}", std::process::id());
    let namespaces = resource("", "v1", "namespaces").unwrap();
    let mut object = Obj::new(namespaces.ty);
    assert!(object.set_at(&["metadata", "name"], name.as_str()));
    client.create(namespaces, object).await.unwrap();
    name
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn every_verb_round_trips() {
    let client = client();
    let ns = namespace(&client, "verbs").await;
    let cm = configmaps();

    let created = client.create(cm, configmap(&ns, "a", "1", "verbs")).await.unwrap();
    assert!(created.revision > Revision::ZERO);
    let again = client.create(cm, configmap(&ns, "a", "1", "verbs")).await.unwrap_err();
    assert!(again.is_already_exists(), "{again:?}");

    let read = client.get(cm, &ns, "a").await.unwrap();
    assert_eq!((read.revision, read.bytes.clone()), (created.revision, created.bytes));
    assert_eq!((read.name().as_str(), read.namespace().as_str()), ("a", ns.as_str()));
    assert!(client.find(cm, &ns, "none").await.unwrap().is_none());

    let mut object = read.obj().unwrap();
    assert_eq!(object.kind(), "ConfigMap");
    assert!(object.set_at(&["data", "key"], "2"));
    let updated = client.update(cm, object.clone()).await.unwrap();
    assert!(updated.revision > read.revision);
    let stale = client.update(cm, object).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale:?}");

    let patch = |format, body: &'static str| (format, body.as_bytes());
    let options = WriteOptions::default();
    let merged = client.patch(cm, "", (&ns, "a"), patch(PatchType::Merge, r#"{"data":{"m":"1"}}"#), options.clone());
    assert_eq!(merged.await.unwrap().obj().unwrap().at(&["data", "m"]).unwrap().as_str(), Some("1"));
    let json = r#"[{"op":"remove","path":"/data/m"}]"#;
    let removed = client.patch(cm, "", (&ns, "a"), patch(PatchType::Json, json), options.clone()).await.unwrap();
    assert!(removed.obj().unwrap().at(&["data", "m"]).is_none());
    let strategic = r#"{"metadata":{"annotations":{"s":"1"}}}"#;
    client.patch(cm, "", (&ns, "a"), patch(PatchType::Strategic, strategic), options).await.unwrap();
    let mut applied = configmap(&ns, "applied", "x", "verbs");
    client.apply(cm, &applied, "live", false).await.unwrap();
    assert!(applied.set_at(&["data", "key"], "y"));
    let other = client.apply(cm, &applied, "other", false).await.unwrap_err();
    assert!(other.is_conflict() && other.details.as_ref().is_some_and(|d| !d.causes.is_empty()), "{other:?}");
    client.apply(cm, &applied, "other", true).await.unwrap();

    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let dry = oarlock_client::Call::Create(configmap(&ns, "dry", "1", "verbs"), dry);
    client.call(cm, "", &ns, "", dry).await.unwrap();
    assert!(client.get(cm, &ns, "dry").await.unwrap_err().is_not_found());

    let wrong = client.delete(cm, &ns, "a", DeleteOptions::uid("not-this-one")).await.unwrap_err();
    assert!(wrong.is_conflict(), "{wrong:?}");
    let uid = read.uid();
    client.delete(cm, &ns, "a", DeleteOptions::uid(uid).propagate(Propagation::Background)).await.unwrap();
    assert!(client.get(cm, &ns, "a").await.unwrap_err().is_not_found());
    let gone = client.delete_collection(cm, &ns, ListOptions::default(), DeleteOptions::default()).await.unwrap();
    assert!(gone.items.iter().any(|item| item.name() == "applied"), "{gone:?}");
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn subresources_answer_with_their_own_types() {
    let client = client();
    let ns = namespace(&client, "sub").await;
    let pods = resource("", "v1", "pods").unwrap();
    let accounts = resource("", "v1", "serviceaccounts").unwrap();
    let mut account = Obj::new(accounts.ty);
    assert!(
        account.set_at(&["metadata", "namespace"], ns.as_str()) && account.set_at(&["metadata", "name"], "default")
    );
    client.create(accounts, account).await.unwrap();
    let json = format!(
        r#"{{"metadata":{{"name":"p","namespace":"{ns}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    let pod = oarlock_client::decode(pods.ty, json.as_bytes()).unwrap();
    let uid = client.create(pods, pod).await.unwrap().uid();
    let wrong = client.bind(&ns, "p", "another-uid", "n1").await.unwrap_err();
    assert!(wrong.is_conflict(), "{wrong:?}");
    client.bind(&ns, "p", &uid, "n1").await.unwrap();
    let bound = client.bind(&ns, "p", &uid, "n2").await.unwrap_err();
    assert!(bound.is_conflict(), "{bound:?}");
    let pod = client.get(pods, &ns, "p").await.unwrap().obj().unwrap();
    assert_eq!(pod.at(&["spec", "nodeName"]).unwrap().as_str(), Some("n1"));

    let mut status = pod.clone();
    assert!(status.set_at(&["status", "phase"], "Running"));
    let status = client.update_status(pods, status).await.unwrap();
    assert_eq!(status.obj().unwrap().at(&["status", "phase"]).unwrap().as_str(), Some("Running"));
    let field = ListOptions::fields(FieldSelector::equal("spec.nodeName", "n1"));
    assert_eq!(client.list(pods, &ns, field).await.unwrap().items.len(), 1);

    let token = oarlock_client::decode(
        accounts.subresource("token").unwrap().ty.unwrap(),
        br#"{"spec":{"audiences":[],"expirationSeconds":600}}"#,
    );
    let token = oarlock_client::Call::Create(token.unwrap(), WriteOptions::default());
    let oarlock_client::Reply::Object { object, created } =
        client.call(accounts, "token", &ns, "default", token).await.unwrap()
    else {
        panic!("no object")
    };
    assert!(created);
    assert_eq!(object.obj().unwrap().kind(), "TokenRequest");
    let text = object.obj().unwrap().at(&["status", "token"]).unwrap().as_str().unwrap().to_owned();

    // The token of an account without rights: a valid token gives 403, an invalid one 401.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nonsense").unwrap();
    let config = Kubeconfig::read(std::env::var("OARLOCK_LIVE_KUBECONFIG").unwrap().as_ref()).unwrap();
    let mut config = config.resolve(None).unwrap();
    config.credential = oarlock_config::Credential::TokenFile(file.path().to_owned());
    let bearer = Https::new(Endpoint::new(&config, "oarlock-live/0.1").unwrap(), Arc::new(TokioSpawn)).unwrap();
    let bearer = Client::new(Arc::new(bearer));
    let unknown = bearer.get(configmaps(), &ns, "x").await.unwrap_err();
    assert!(unknown.is_unauthorized(), "{unknown:?}");
    // The file is read again right after a 401.
    std::fs::write(file.path(), &text).unwrap();
    let known = bearer.get(configmaps(), &ns, "x").await.unwrap_err();
    assert!(known.is_forbidden() && known.message.contains("system:serviceaccount:"), "{known:?}");

    client.evict(&ns, "p", &DeleteOptions::default().grace(0)).await.unwrap();
    assert!(client.find(pods, &ns, "p").await.unwrap().is_none());
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn lists_come_in_pages_at_one_revision() {
    let client = client();
    let ns = namespace(&client, "pages").await;
    for n in 0..25 {
        client.create(configmaps(), configmap(&ns, &format!("c{n:02}"), "v", ["a", "b"][n % 2])).await.unwrap();
    }
    let (mut names, mut token, mut revisions) = (Vec::new(), oarlock_schema::Str::default(), BTreeSet::new());
    loop {
        let options = ListOptions { limit: 10, continue_token: token, ..ListOptions::default() };
        let page = client.list(configmaps(), &ns, options).await.unwrap();
        names.extend(page.items.iter().map(|item| item.name()));
        revisions.insert(page.revision);
        token = page.continue_token;
        if token.is_empty() {
            break;
        }
        client.create(configmaps(), configmap(&ns, &format!("z{}", names.len()), "v", "a")).await.unwrap();
    }
    assert_eq!(names, (0..25).map(|n| format!("c{n:02}")).collect::<Vec<_>>());
    assert_eq!(revisions.len(), 1);
    let some = ListOptions::labels(LabelSelector::parse("test in (b)").unwrap());
    assert_eq!(client.list(configmaps(), &ns, some).await.unwrap().items.len(), 12);
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn a_watch_streams_the_state_then_the_changes() {
    let client = client();
    let ns = namespace(&client, "watch").await;
    client.create(configmaps(), configmap(&ns, "before", "v", "w")).await.unwrap();
    let options = ListOptions {
        send_initial_events: Some(true),
        version_match: Some(VersionMatch::NotOlderThan),
        allow_bookmarks: true,
        ..ListOptions::default()
    };
    let mut watch = client.watch(configmaps(), &ns, options).await.unwrap();
    let mut seen = Vec::new();
    let writer = async {
        let created = client.create(configmaps(), configmap(&ns, "after", "v", "w")).await.unwrap();
        let mut object = created.obj().unwrap();
        assert!(object.set_at(&["data", "key"], "w"));
        client.update(configmaps(), object).await.unwrap();
        client.delete(configmaps(), &ns, "after", DeleteOptions::default()).await.unwrap();
    };
    let mut writer = Some(writer);
    'read: loop {
        let batch = tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("events").expect("open");
        for event in batch {
            let end = matches!(event, Event::Bookmark { initial_events_end: true, .. });
            let deleted = matches!(event, Event::Deleted(_));
            seen.push(match event {
                Event::Added(object) => format!("+{}", object.name()),
                Event::Modified(object) => format!("~{}", object.name()),
                Event::Deleted(object) => format!("-{}", object.name()),
                Event::Bookmark { initial_events_end: true, .. } => "end".to_owned(),
                Event::Bookmark { .. } => continue,
                Event::Error(status) => panic!("{status:?}"),
            });
            if end {
                writer.take().unwrap().await;
            }
            if deleted {
                break 'read;
            }
        }
    }
    seen.retain(|what| !what.contains("kube-root-ca"));
    assert_eq!(seen, ["+before", "end", "+after", "~after", "-after"]);
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn many_watches_take_more_than_one_connection_and_end_by_time() {
    let client = client();
    let ns = namespace(&client, "many").await;
    let options = || ListOptions { timeout: Some(Duration::from_secs(3)), ..ListOptions::default() };
    let watches = (0..250).map(|_| client.watch(configmaps(), &ns, options()));
    let mut watches = futures::future::try_join_all(watches).await.unwrap();
    client.create(configmaps(), configmap(&ns, "x", "v", "m")).await.unwrap();
    for watch in &mut watches {
        let mut found = false;
        while let Some(batch) =
            tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("events or end")
        {
            for event in batch {
                match event {
                    Event::Added(object) => found |= object.name() == "x",
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(found);
    }
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn raw_requests_and_unreachable_replicas() {
    let real = endpoint();
    // An endpoint without a listener beside the real one: calls succeed.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("https://{}", listener.local_addr().unwrap());
    drop(listener);
    let servers = vec![dead.clone(), real.servers[0].clone()];
    let both = Https::new(real.clone().with_servers(servers), Arc::new(TokioSpawn)).unwrap();
    let both = Client::new(Arc::new(both));
    for _ in 0..8 {
        let reply = both.raw(RawRequest::get("/version", Duration::from_secs(10))).await.unwrap();
        assert_eq!((reply.code, reply.header("content-type")), (200, Some("application/json")));
        let version = reply.bytes(1 << 20).await.unwrap();
        assert!(String::from_utf8_lossy(&version).contains("\"gitVersion\""));
    }
    let missing = both.raw(RawRequest::get("/nowhere", Duration::from_secs(10))).await.unwrap();
    assert_eq!(missing.code, 404);
    let none = Https::new(real.with_servers(vec![dead]), Arc::new(TokioSpawn)).unwrap();
    let none = Client::new(Arc::new(none)).with_timeout(Duration::from_secs(1));
    let status = none.create(configmaps(), configmap("default", "x", "v", "l")).await.unwrap_err();
    assert!(status.is_service_unavailable() && status.message.contains("connect to"), "{status:?}");
    // An endpoint that accepts and never answers: nothing was sent, so no outcome is unknown.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", mute.local_addr().unwrap());
    let none = Https::new(endpoint().with_servers(vec![address]), Arc::new(TokioSpawn)).unwrap();
    let none = Client::new(Arc::new(none)).with_timeout(Duration::from_secs(1));
    let status = none.create(configmaps(), configmap("default", "x", "v", "l")).await.unwrap_err();
    assert!(status.is_service_unavailable() && status.message.contains("timed out"), "{status:?}");
}
