//! Things that containers need besides a runtime: environments, volumes, tokens, probes, hooks.

use std::path::Path;

use serde_json::Value;

use super::machine::Machine;
use super::{apply, json, phase, pod, ready, settled, until, waits};

const NEVER: &str = "  restartPolicy: Never";

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast, greeting: "hello $(MODE)"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: s3cret}
---
apiVersion: v1
kind: Service
metadata: {name: my-db}
spec: {selector: {app: db}, ports: [{name: sql, port: 5432}]}
"#;

#[test]
fn environments_come_from_everywhere() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    apply(&kubectl, OBJECTS);
    let env = r#"    args: [unused]
    envFrom: [{configMapRef: {name: settings}, prefix: CFG_}, {secretRef: {name: none, optional: true}}]
    env:
    - {name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}
    - {name: LINE, value: "$(MODE)-$(CFG_mode)-$$(MODE)-$(NONE)"}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: keys, key: password}}}
    - {name: WHERE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    resources: {limits: {memory: 48Mi}}"#;
    let text = pod("env", "env; echo arg $(MODE)", env, NEVER);
    let text = text.replace("metadata: {name: env}", "metadata: {name: env, labels: {app: web}}");
    apply(&kubectl, &text);
    let done = until(&kubectl, "env", phase("Succeeded"));
    let (ip, node) = (done["status"]["podIP"].as_str().unwrap(), done["spec"]["nodeName"].as_str().unwrap());
    let lines = [
        "MODE=fast\n".to_owned(),
        "CFG_greeting=hello $(MODE)\n".to_owned(),
        "LINE=fast-fast-$(MODE)-$(NONE)\n".to_owned(),
        "PASSWORD=s3cret\n".to_owned(),
        format!("WHERE={node}\n"),
        format!("IP={ip}\n"),
        "APP=web\n".to_owned(),
        "MEMORY=48\n".to_owned(),
        "MY_DB_SERVICE_PORT_SQL=5432\n".to_owned(),
        "KUBERNETES_SERVICE_PORT=".to_owned(),
        "arg fast\n".to_owned(),
    ];
    kubectl.until_says("logs env", lines.each_ref().map(String::as_str));
    let bad = "    env: [{name: X, valueFrom: {secretKeyRef: {name: keys, key: none}}}]";
    apply(&kubectl, &pod("bad", "true", bad, NEVER));
    let bad = until(&kubectl, "bad", waits("CreateContainerConfigError"));
    let message = &bad["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    assert_eq!(message, "couldn't find key none in Secret default/keys");
    // The missing key is added later.
    kubectl.ok(r#"patch secret keys -p '{"stringData":{"none":"now"}}'"#);
    until(&kubectl, "bad", phase("Succeeded"));
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

const VOLUMES: &str = r#"  securityContext: {fsGroup: 4321}
  hostAliases: [{ip: 192.0.2.1, hostnames: [far.example]}]
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: ram, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: settings, configMap: {name: settings, items: [{key: mode, path: sub/mode}]}}
  - {name: keys, secret: {secretName: keys, defaultMode: 256}}
  - {name: host, hostPath: {path: HOST, type: Directory}}
  - name: all
    projected:
      sources:
      - {configMap: {name: settings, items: [{key: mode, path: mode}]}}
      - {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
      - {serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}}"#;

const MOUNTS: &str = r#"    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /part, subPath: deep/er}
    - {name: disk, mountPath: /own, subPathExpr: of-$(HOSTNAME_OF)}
    - {name: ram, mountPath: /ram}
    - {name: settings, mountPath: /settings}
    - {name: settings, mountPath: /mode.conf, subPath: sub/mode}
    - {name: keys, mountPath: /keys}
    - {name: host, mountPath: /host}
    - {name: all, mountPath: /all}
    env: [{name: HOSTNAME_OF, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"#;

#[test]
fn volumes_hold_what_they_should_and_follow_their_objects() {
    let Some(machine) = Machine::start() else { return };
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("file"), b"of the node").unwrap();
    let cluster = machine.cluster_with(&["--sync-frequency=2s"]);
    let kubectl = settled(&cluster);
    apply(&kubectl, OBJECTS);
    let script = "set -e; echo x > /part/file; cat /disk/deep/er/file; ls -d /disk/of-vols; stat -c %g:%a /disk; \
        cat /settings/sub/mode /mode.conf; stat -L -c key:%a /keys/password; cat /keys/password; echo; \
        cat /host/file; echo; cat /all/name /all/mode; cut -c1-10 /all/token; \
        grep far.example /etc/hosts; cat /etc/resolv.conf; df -k /ram | tail -1 | awk '{print \"ram\", $2}'; \
        touch /keys/new 2>/dev/null || echo readonly; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; \
        echo; trap 'exit 0' TERM; while [ \"$(cat /settings/sub/mode)\" != slow ]; do sleep 0.2; done; echo followed; \
        sleep 1000 & wait";
    let spec = VOLUMES.replace("HOST", &host.path().display().to_string());
    apply(&kubectl, &pod("vols", script, MOUNTS, &spec));
    until(&kubectl, "vols", phase("Running"));
    let says = [
        "x\n/disk/of-vols\n4321:2777\nfastfast",
        "key:440\ns3cret\nof the node\nvolsfasteyJ",
        "192.0.2.1\tfar.example\n",
        "nameserver 192.0.2.53\n",
        "ram 1024\n",
        "readonly\ndefault\n",
    ];
    kubectl.until_says("logs vols", says);
    kubectl.ok(r#"patch configmap settings -p '{"data":{"mode":"slow"}}'"#);
    kubectl.until_says("logs vols", ["followed\n"]);
    // The pod reports a volume that cannot be mounted, and starts when the volume's source exists.
    let missing = "  volumes: [{name: v, configMap: {name: later}}]";
    let mount = "    volumeMounts: [{name: v, mountPath: /v}]";
    apply(&kubectl, &pod("late", "cat /v/k", mount, &format!("{missing}\n{NEVER}")));
    kubectl.until_says("get events", ["MountVolume.SetUp failed for volume \"v\" : configmap \"later\" not found"]);
    kubectl.ok("create configmap later --from-literal=k=came");
    until(&kubectl, "late", phase("Succeeded"));
    kubectl.until_says("logs late", ["came"]);
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
    assert!(Path::new(&host.path().join("file")).exists());
}

#[test]
fn a_program_in_a_pod_talks_to_the_api_with_its_token() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let script = "cd /var/run/secrets/kubernetes.io/serviceaccount; cut -d. -f2 token | tr '_-' '/+' | base64 -d 2>/dev/null; \
        echo; head -1 ca.crt";
    apply(&kubectl, &pod("token", script, "", NEVER));
    let done = until(&kubectl, "token", phase("Succeeded"));
    let uid = done["metadata"]["uid"].as_str().unwrap();
    let claims = kubectl.until("logs token", |out| out.contains("BEGIN CERTIFICATE"));
    assert!(claims.contains("system:serviceaccount:default:default") && claims.contains(uid), "{claims}");
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0)
}

#[test]
fn probes_decide_who_is_started_ready_and_alive() {
    let Some(machine) = Machine::start() else { return };
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let probed = |name: &str, script: &str, probe: &str| apply(&kubectl, &pod(name, script, probe, ""));
    let serve = "trap 'exit 0' TERM; mkdir -p /www; echo ok > /www/health; httpd -f -p 8080 -h /www & wait";
    probed("http", serve, "    readinessProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 1}");
    probed("gone", serve, "    readinessProbe: {httpGet: {path: /nothing, port: 8080}, periodSeconds: 1}");
    probed("tcp", serve, "    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}");
    let wait = "trap 'exit 0' TERM; sleep 2; touch /tmp/ready; sleep 1000 & wait";
    let exec = "{exec: {command: [cat, /tmp/ready]}, periodSeconds: 1}";
    let host = tempfile::tempdir().unwrap();
    let volume = format!("  volumes: [{{name: host, hostPath: {{path: {}}}}}]", host.path().display());
    let mount = "    volumeMounts: [{name: host, mountPath: /tmp}]";
    apply(&kubectl, &pod("exec", wait, &format!("{mount}\n    readinessProbe: {exec}"), &volume));
    // Only the program decides the result, not the load of the machine: by default a probe has 1 s for its command and three attempts during the
    // start.
    let cat = "exec: {command: [cat, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 60";
    let slow = format!(
        "    startupProbe: {{{cat}, failureThreshold: 120}}\n    livenessProbe: {{{cat}, failureThreshold: 1}}"
    );
    probed("slow", wait, &slow);
    let dies = "trap 'exit 0' TERM; touch /tmp/ready; sleep 3; rm /tmp/ready; sleep 1000 & wait";
    let alive = "{exec: {command: [cat, /tmp/ready]}, periodSeconds: 1, failureThreshold: 2}";
    probed("dies", dies, &format!("    livenessProbe: {alive}"));
    for name in ["http", "tcp", "exec", "slow"] {
        let pod = until(&kubectl, name, ready);
        assert_eq!(restarts(&pod), 0, "{name}");
    }
    until(&kubectl, "dies", |pod| restarts(pod) >= 1);
    let gone = json(&kubectl, "pod gone");
    assert!(!ready(&gone));
    assert_eq!(gone["status"]["containerStatuses"][0]["started"], true);
    let says = [
        "Readiness probe failed: HTTP probe failed with statuscode: 404",
        "Liveness probe failed: cat: can't open '/tmp/ready'",
        "Container main failed liveness probe, will be restarted",
        "Startup probe failed: ",
    ];
    for text in says {
        kubectl.until_says("get events", [text]);
    }
    // A container whose readiness probe fails becomes unready.
    std::fs::remove_file(host.path().join("ready")).unwrap();
    until(&kubectl, "exec", |pod| !ready(pod));
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}

#[test]
fn hooks_run_after_the_start_and_before_the_end() {
    let Some(machine) = Machine::start() else { return };
    let host = tempfile::tempdir().unwrap();
    let cluster = machine.cluster();
    let kubectl = settled(&cluster);
    let volume = format!("  volumes: [{{name: host, hostPath: {{path: {}}}}}]", host.path().display());
    let stay = "trap 'exit 0' TERM; sleep 1000 & wait";
    let hooks = "    volumeMounts: [{name: host, mountPath: /host}]\n    lifecycle: \
        {postStart: {exec: {command: [touch, /host/started]}}, preStop: {exec: {command: [touch, /host/stopped]}}}";
    apply(&kubectl, &pod("good", stay, hooks, &volume));
    until(&kubectl, "good", ready);
    assert!(host.path().join("started").exists(), "it is not Running before its hook has ended");
    kubectl.ok("delete pod good --wait");
    assert!(host.path().join("stopped").exists());
    let bad = "    lifecycle: {postStart: {exec: {command: [sh, -c, 'echo why; exit 9']}}}";
    apply(&kubectl, &pod("bad", stay, bad, ""));
    until(&kubectl, "bad", |pod| restarts(pod) >= 1);
    kubectl.until_says("get events", ["PostStartHook failed"]);
    kubectl.ok("delete pod --all --wait");
    machine.until_clean();
}
