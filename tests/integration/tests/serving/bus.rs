//! The bus in health checks and metrics: only the admission process needs it, and every member counts its messages.

use super::*;
use crate::mesh::Ground;

#[test]
fn what_the_bus_carries_is_counted_and_only_who_is_nothing_without_it_needs_it() {
    let Some(mut ground) = Ground::start() else { return };
    let _server = ground.api_server();
    let admin = Path::new(&ground.path("kubeconfig")).to_owned();
    let own = ground.path("scheduler.kubeconfig");
    let words = ["--kubeconfig", own.as_str()];
    let scheduler = Part::start("scheduler", &words, |part| ground.join(part, "nats/scheduler.seed"));
    let judge = ["--kubeconfig", admin.to_str().unwrap()];
    let admission = Part::start("admission", &judge, |part| ground.join(part, "nats/admission.seed"));
    let (data, at) = (ground.path(""), port::own());
    let address = at.to_string();
    let node = ["kubelet", "--kubeconfig", admin.to_str().unwrap(), "--runtime", "sim", "--node-name", "n1"];
    let node = [&node[..], &["--data-dir", &data, "--address", "127.0.0.1", "--port", &address]].concat();
    let kubelet = Part { _process: Process::start(ground.command(&node, "nats"), "kubelet"), port: at };

    for part in [&scheduler, &admission] {
        eventually("it is ready", || part.probe("/readyz"));
        eventually("the bus is told of", || {
            let told = part.http(&admin, Who::Anonymous).get("/readyz?verbose").text();
            if told.contains("[+]bus ok\n") { Ok(()) } else { Err(told) }
        });
    }
    let server = Http::new(&Kubeconfig::read(&admin).and_then(|file| file.resolve(None)).unwrap(), Who::Admin);
    let as_admin = |part: &Part| part.http(&admin, Who::Admin);
    let everybody = [
        ("scheduler", as_admin(&scheduler)),
        ("admission", as_admin(&admission)),
        ("node", as_admin(&kubelet)),
        ("api-server", server),
    ];
    for (role, http) in &everybody {
        let sent = format!("{{role=\"{role}\",kind=\"presence\",direction=\"sent\"}}");
        let text = eventually("it is counted what they say", || match http.try_get("/metrics") {
            Ok(told) if value(&told.text(), &format!("oarlock_bus_messages_total{sent}")) >= Some(1.0) => {
                Ok(told.text())
            }
            Ok(told) => Err(told.to_string()),
            Err(error) => Err(error.to_string()),
        });
        assert!(value(&text, &format!("oarlock_bus_bytes_total{sent}")) >= Some(10.0), "{text}");
        assert_eq!(value(&text, &format!("oarlock_bus_connections{{role=\"{role}\"}}")), Some(1.0), "{text}");
    }

    ground.nats.stop();
    eventually("who judges for others is of no use", || match admission.probe("/readyz") {
        Err(told) if told.contains("[-]bus failed") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(admission.probe("/livez"), Ok(()));
    eventually("who schedules is as ready as before", || {
        let told = scheduler.http(&admin, Who::Anonymous).get("/readyz?verbose");
        let so = told.code == 200 && told.text().contains("[+]bus not needed: not connected\n");
        if so { Ok(()) } else { Err(told) }
    });
    ground.nats.restart();
    eventually("it judges again", || admission.probe("/readyz"));
}
