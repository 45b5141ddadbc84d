//! A message of each type that Oarlock sends or reads, with a value in every field.

use super::cri::*;
use super::{Bytes, Sample, bytes, containerd, etcd, health, konnectivity, labels, sample, texts};

pub(super) fn all() -> Vec<Sample> {
    [sandboxes(), containers(), streams(), stats(), images(), runtime(), etcd_calls(), etcd_watch(), tunnel(), others()]
        .into_iter()
        .flatten()
        .collect()
}

fn s(text: &str) -> String {
    text.to_owned()
}

fn int(value: i64) -> Option<Int64Value> {
    Some(Int64Value { value })
}

fn uint(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

fn meta() -> Option<PodSandboxMetadata> {
    Some(PodSandboxMetadata { name: s("web"), uid: s("u-1"), namespace: s("ns"), attempt: 2 })
}

fn container_meta() -> Option<ContainerMetadata> {
    Some(ContainerMetadata { name: s("main"), attempt: 3 })
}

fn namespaces() -> Option<NamespaceOption> {
    let (network, pid, ipc) =
        (NamespaceMode::Node as i32, NamespaceMode::Target as i32, NamespaceMode::Container as i32);
    Some(NamespaceOption { network, pid, ipc })
}

fn seccomp() -> Option<SecurityProfile> {
    let profile_type = security_profile::ProfileType::Localhost as i32;
    Some(SecurityProfile { profile_type, localhost_ref: s("p.json") })
}

fn sandbox() -> Option<PodSandboxConfig> {
    Some(PodSandboxConfig {
        metadata: meta(),
        hostname: s("web-0"),
        log_directory: s("/var/log/pods/x"),
        dns_config: Some(DnsConfig {
            servers: texts(&["10.0.0.10"]),
            searches: texts(&["ns.svc", "svc"]),
            options: texts(&["ndots:5"]),
        }),
        port_mappings: vec![PortMapping {
            protocol: Protocol::Sctp as i32,
            container_port: 80,
            host_port: 8080,
            host_ip: s("::1"),
        }],
        labels: labels("l"),
        annotations: labels("n"),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: s("/kubepods"),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: namespaces(),
                run_as_user: int(1000),
                readonly_rootfs: true,
                supplemental_groups: vec![1, 300, -1],
                privileged: true,
                run_as_group: int(0),
                seccomp: seccomp(),
            }),
            sysctls: labels("net"),
        }),
    })
}

fn sandboxes() -> Vec<Sample> {
    let pod_sandbox_id = || s("sandbox-1");
    vec![
        sample("RunPodSandboxRequest", &RunPodSandboxRequest { config: sandbox(), runtime_handler: s("runc") }),
        sample("RunPodSandboxResponse", &RunPodSandboxResponse { pod_sandbox_id: pod_sandbox_id() }),
        sample("StopPodSandboxRequest", &StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id() }),
        sample("RemovePodSandboxRequest", &RemovePodSandboxRequest { pod_sandbox_id: pod_sandbox_id() }),
        sample("PodSandboxStatusRequest", &PodSandboxStatusRequest { pod_sandbox_id: pod_sandbox_id() }),
        sample(
            "PodSandboxStatusResponse",
            &PodSandboxStatusResponse {
                status: Some(PodSandboxStatus {
                    id: pod_sandbox_id(),
                    metadata: meta(),
                    state: PodSandboxState::SandboxNotready as i32,
                    created_at: 1_700_000_000_000_000_001,
                    network: Some(PodSandboxNetworkStatus {
                        ip: s("10.1.2.3"),
                        additional_ips: vec![PodIp { ip: s("fd00::3") }],
                    }),
                }),
            },
        ),
        sample(
            "ListPodSandboxRequest",
            &ListPodSandboxRequest {
                filter: Some(PodSandboxFilter { label_selector: labels("io.kubernetes.pod.uid") }),
            },
        ),
        sample(
            "ListPodSandboxResponse",
            &ListPodSandboxResponse {
                items: vec![PodSandbox {
                    id: pod_sandbox_id(),
                    metadata: meta(),
                    state: PodSandboxState::SandboxNotready as i32,
                    created_at: 5,
                    labels: labels("l"),
                }],
            },
        ),
    ]
}

fn mount() -> Mount {
    let propagation = MountPropagation::PropagationBidirectional as i32;
    Mount { container_path: s("/in"), host_path: s("/out"), readonly: true, propagation, recursive_read_only: true }
}

fn security() -> Option<LinuxContainerSecurityContext> {
    Some(LinuxContainerSecurityContext {
        capabilities: Some(Capability {
            add_capabilities: texts(&["NET_ADMIN"]),
            drop_capabilities: texts(&["ALL", "KILL"]),
        }),
        privileged: true,
        namespace_options: namespaces(),
        selinux_options: Some(SeLinuxOption { user: s("u"), role: s("r"), r#type: s("t"), level: s("l") }),
        run_as_user: int(-5),
        run_as_username: s("app"),
        readonly_rootfs: true,
        supplemental_groups: vec![70_000, 2],
        no_new_privs: true,
        run_as_group: int(9),
        masked_paths: texts(&["/proc/kcore"]),
        readonly_paths: texts(&["/proc/sys"]),
        seccomp: seccomp(),
        supplemental_groups_policy: SupplementalGroupsPolicy::Strict as i32,
    })
}

fn containers() -> Vec<Sample> {
    let container_id = || s("container-1");
    let config = ContainerConfig {
        metadata: container_meta(),
        image: Some(ImageSpec { image: s("sha256:1"), user_specified_image: s("nginx:1") }),
        command: texts(&["/bin/sh"]),
        args: texts(&["-c", ""]),
        working_dir: s("/srv"),
        envs: vec![KeyValue { key: s("K"), value: s("V") }],
        mounts: vec![mount()],
        devices: vec![Device { container_path: s("/dev/a"), host_path: s("/dev/b"), permissions: s("rwm") }],
        labels: labels("l"),
        annotations: labels("n"),
        log_path: s("main/3.log"),
        stdin: true,
        stdin_once: true,
        tty: true,
        linux: Some(LinuxContainerConfig {
            resources: Some(LinuxContainerResources {
                cpu_period: 100_000,
                cpu_quota: 50_000,
                cpu_shares: 512,
                memory_limit_in_bytes: 1 << 33,
                oom_score_adj: -997,
                hugepage_limits: vec![HugepageLimit { page_size: s("2MB"), limit: 1 << 21 }],
            }),
            security_context: security(),
        }),
    };
    let status = ContainerStatus {
        id: container_id(),
        metadata: container_meta(),
        state: ContainerState::ContainerExited as i32,
        created_at: 1,
        started_at: 2,
        finished_at: 3,
        exit_code: -1,
        image_ref: s("sha256:1"),
        reason: s("OOMKilled"),
        message: s("bye"),
        labels: labels("l"),
        annotations: labels("n"),
        mounts: vec![mount()],
        log_path: s("/log"),
    };
    let listed = Container {
        id: container_id(),
        pod_sandbox_id: s("sandbox-1"),
        metadata: container_meta(),
        image_ref: s("sha256:1"),
        state: ContainerState::ContainerUnknown as i32,
        labels: labels("l"),
    };
    vec![
        sample(
            "CreateContainerRequest",
            &CreateContainerRequest { pod_sandbox_id: s("sandbox-1"), config: Some(config), sandbox_config: sandbox() },
        ),
        sample("CreateContainerResponse", &CreateContainerResponse { container_id: container_id() }),
        sample("StartContainerRequest", &StartContainerRequest { container_id: container_id() }),
        sample("StopContainerRequest", &StopContainerRequest { container_id: container_id(), timeout: 30 }),
        sample("RemoveContainerRequest", &RemoveContainerRequest { container_id: container_id() }),
        sample("ReopenContainerLogRequest", &ReopenContainerLogRequest { container_id: container_id() }),
        sample("ContainerStatusRequest", &ContainerStatusRequest { container_id: container_id() }),
        sample("ContainerStatusResponse", &ContainerStatusResponse { status: Some(status) }),
        sample(
            "ListContainersRequest",
            &ListContainersRequest { filter: Some(ContainerFilter { pod_sandbox_id: s("sandbox-1") }) },
        ),
        sample("ListContainersResponse", &ListContainersResponse { containers: vec![listed] }),
    ]
}

fn streams() -> Vec<Sample> {
    let (container_id, cmd) = (s("container-1"), texts(&["ls", "-l"]));
    let exec = ExecRequest {
        container_id: container_id.clone(),
        cmd: cmd.clone(),
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    };
    let attach =
        AttachRequest { container_id: container_id.clone(), stdin: true, tty: true, stdout: true, stderr: false };
    vec![
        sample("ExecSyncRequest", &ExecSyncRequest { container_id, cmd, timeout: 7 }),
        sample("ExecSyncResponse", &ExecSyncResponse { stdout: bytes("out"), stderr: bytes("err"), exit_code: 137 }),
        sample("ExecRequest", &exec),
        sample("ExecResponse", &ExecResponse { url: s("http://127.0.0.1:1/exec/x") }),
        sample("AttachRequest", &attach),
        sample("AttachResponse", &AttachResponse { url: s("http://127.0.0.1:1/attach/x") }),
        sample("PortForwardRequest", &PortForwardRequest { pod_sandbox_id: s("sandbox-1"), port: vec![80, 443] }),
        sample("PortForwardResponse", &PortForwardResponse { url: s("http://127.0.0.1:1/portforward/x") }),
    ]
}

fn stats() -> Vec<Sample> {
    let cpu = Some(CpuUsage { timestamp: 1, usage_core_nano_seconds: uint(2), usage_nano_cores: uint(0) });
    let memory = Some(MemoryUsage {
        timestamp: 1,
        working_set_bytes: uint(2),
        available_bytes: uint(3),
        usage_bytes: uint(4),
        rss_bytes: uint(5),
        page_faults: uint(6),
        major_page_faults: uint(7),
    });
    let interface = |name: &str| NetworkInterfaceUsage {
        name: s(name),
        rx_bytes: uint(1),
        rx_errors: uint(2),
        tx_bytes: uint(3),
        tx_errors: uint(4),
    };
    let container = ContainerStats {
        attributes: Some(ContainerAttributes { id: s("container-1"), metadata: container_meta() }),
        cpu,
        memory,
        writable_layer: Some(FilesystemUsage { timestamp: 1, fs_id: None, used_bytes: uint(3), inodes_used: uint(4) }),
    };
    let stats = PodSandboxStats {
        attributes: Some(PodSandboxAttributes { id: s("sandbox-1"), metadata: meta(), labels: labels("l") }),
        linux: Some(LinuxPodSandboxStats {
            cpu,
            memory,
            network: Some(NetworkUsage {
                timestamp: 1,
                default_interface: Some(interface("eth0")),
                interfaces: vec![interface("eth1")],
            }),
            process: Some(ProcessUsage { timestamp: 1, process_count: uint(2) }),
            containers: vec![container],
        }),
    };
    vec![
        sample("PodSandboxStatsRequest", &PodSandboxStatsRequest { pod_sandbox_id: s("sandbox-1") }),
        sample("PodSandboxStatsResponse", &PodSandboxStatsResponse { stats: Some(stats) }),
    ]
}

fn images() -> Vec<Sample> {
    let spec = || Some(ImageSpec { image: s("nginx"), user_specified_image: s("nginx:1") });
    let image = || Image {
        id: s("sha256:1"),
        repo_tags: texts(&["nginx:1"]),
        repo_digests: texts(&["nginx@sha256:2"]),
        size: 1 << 40,
        uid: int(101),
        username: s("nginx"),
        pinned: true,
    };
    let auth = AuthConfig {
        username: s("u"),
        password: s("p"),
        auth: s("dTpw"),
        server_address: s("registry"),
        identity_token: s("i"),
        registry_token: s("r"),
    };
    let fs_id = Some(FilesystemIdentifier { mountpoint: s("/var/lib/containerd") });
    vec![
        sample("ListImagesResponse", &ListImagesResponse { images: vec![image(), Image::default()] }),
        sample("ImageStatusRequest", &ImageStatusRequest { image: spec() }),
        sample("ImageStatusResponse", &ImageStatusResponse { image: Some(image()) }),
        sample("PullImageRequest", &PullImageRequest { image: spec(), auth: Some(auth), sandbox_config: sandbox() }),
        sample("PullImageResponse", &PullImageResponse { image_ref: s("sha256:1") }),
        sample("RemoveImageRequest", &RemoveImageRequest { image: spec() }),
        sample(
            "ImageFsInfoResponse",
            &ImageFsInfoResponse { image_filesystems: vec![FilesystemUsage { fs_id, ..FilesystemUsage::default() }] },
        ),
    ]
}

fn runtime() -> Vec<Sample> {
    let condition = RuntimeCondition { r#type: s("NetworkReady"), status: true, reason: s("r"), message: s("m") };
    let network_config = Some(NetworkConfig { pod_cidr: s("10.1.0.0/24") });
    vec![
        sample("VersionRequest", &VersionRequest { version: s("v1") }),
        sample("VersionResponse", &VersionResponse { runtime_name: s("containerd"), runtime_version: s("1.6.20") }),
        sample("StatusRequest", &StatusRequest { verbose: true }),
        sample(
            "StatusResponse",
            &StatusResponse { status: Some(RuntimeStatus { conditions: vec![condition] }), info: labels("config") },
        ),
        sample(
            "UpdateRuntimeConfigRequest",
            &UpdateRuntimeConfigRequest { runtime_config: Some(RuntimeConfig { network_config }) },
        ),
    ]
}

fn header() -> Option<etcd::ResponseHeader> {
    Some(etcd::ResponseHeader { cluster_id: u64::MAX, member_id: 2, revision: 300 })
}

fn kv() -> etcd::KeyValue {
    etcd::KeyValue {
        key: bytes("/registry/pods/a"),
        create_revision: 1,
        mod_revision: 300,
        version: 3,
        value: bytes("k8s\0"),
    }
}

fn range() -> etcd::RangeRequest {
    etcd::RangeRequest {
        key: bytes("/a"),
        range_end: bytes("/b"),
        limit: 500,
        revision: 7,
        keys_only: true,
        count_only: true,
    }
}

fn found() -> etcd::RangeResponse {
    etcd::RangeResponse { header: header(), kvs: vec![kv(), etcd::KeyValue::default()], more: true }
}

fn etcd_calls() -> Vec<Sample> {
    use etcd::compare::{CompareResult, CompareTarget, TargetUnion};
    use etcd::request_op::Request;
    use etcd::response_op::Response;
    let compare = |target_union| etcd::Compare {
        result: CompareResult::Greater as i32,
        target: CompareTarget::Mod as i32,
        key: bytes("/k"),
        target_union: Some(target_union),
    };
    let op = |request| etcd::RequestOp { request: Some(request) };
    let done = |response| etcd::ResponseOp { response: Some(response) };
    let txn = etcd::TxnRequest {
        compare: vec![compare(TargetUnion::ModRevision(0)), compare(TargetUnion::Version(4)), etcd::Compare::default()],
        success: vec![
            op(Request::RequestPut(etcd::PutRequest { key: bytes("/k"), value: bytes("v") })),
            op(Request::RequestDeleteRange(etcd::DeleteRangeRequest { key: bytes("/d") })),
        ],
        failure: vec![op(Request::RequestRange(range()))],
    };
    let answer = etcd::TxnResponse {
        header: header(),
        succeeded: true,
        responses: vec![
            done(Response::ResponseRange(found())),
            done(Response::ResponsePut(etcd::PutResponse {})),
            done(Response::ResponseDeleteRange(etcd::DeleteRangeResponse {})),
        ],
    };
    vec![
        sample("etcd.RangeRequest", &range()),
        sample("etcd.RangeResponse", &found()),
        sample("etcd.TxnRequest", &txn),
        sample("etcd.TxnResponse", &answer),
        sample("etcd.CompactionRequest", &etcd::CompactionRequest { revision: 9 }),
        sample("etcd.CompactionResponse", &etcd::CompactionResponse { header: header() }),
        sample(
            "etcd.StatusResponse",
            &etcd::StatusResponse { header: header(), version: s("3.6.5"), db_size: 1 << 20 },
        ),
        sample("etcd.AuthenticateRequest", &etcd::AuthenticateRequest { name: s("root"), password: s("pw") }),
        sample("etcd.AuthenticateResponse", &etcd::AuthenticateResponse { token: s("t.1") }),
    ]
}

fn etcd_watch() -> Vec<Sample> {
    use etcd::event::EventType;
    use etcd::watch_request::RequestUnion;
    let create =
        etcd::WatchCreateRequest { key: bytes("/a"), range_end: bytes("/b"), start_revision: 8, progress_notify: true };
    let request = |request| etcd::WatchRequest { request_union: Some(request) };
    let event = |kind: EventType| etcd::Event { r#type: kind as i32, kv: Some(kv()) };
    let response = etcd::WatchResponse {
        header: header(),
        created: true,
        canceled: true,
        compact_revision: 6,
        cancel_reason: s("compacted"),
        events: vec![event(EventType::Put), event(EventType::Delete)],
    };
    vec![
        sample("etcd.WatchRequest/create", &request(RequestUnion::CreateRequest(create))),
        sample("etcd.WatchRequest/progress", &request(RequestUnion::ProgressRequest(etcd::WatchProgressRequest {}))),
        sample("etcd.WatchResponse", &response),
    ]
}

fn tunnel() -> Vec<Sample> {
    use konnectivity::packet::Payload;
    use konnectivity::{
        CloseDial, CloseRequest, CloseResponse, Data, DialRequest, DialResponse, Drain, Packet, PacketType, Window,
    };
    let packet = |kind: PacketType, payload| Packet { r#type: kind as i32, payload: Some(payload) };
    let request = DialRequest { protocol: s("tcp"), address: s("10.0.0.1:10250"), random: 7 };
    let response = DialResponse { error: s("refused"), connect_id: 9, random: 7 };
    let data = Data { connect_id: 9, error: s("broken"), data: bytes("value") };
    let closed = CloseResponse { error: s("broken"), connect_id: 9 };
    vec![
        sample("konnectivity.DialRequest", &packet(PacketType::DialReq, Payload::DialRequest(request))),
        sample("konnectivity.DialResponse", &packet(PacketType::DialRsp, Payload::DialResponse(response))),
        sample("konnectivity.Data", &packet(PacketType::Data, Payload::Data(data))),
        sample(
            "konnectivity.CloseRequest",
            &packet(PacketType::CloseReq, Payload::CloseRequest(CloseRequest { connect_id: 9 })),
        ),
        sample("konnectivity.CloseResponse", &packet(PacketType::CloseRsp, Payload::CloseResponse(closed))),
        sample("konnectivity.CloseDial", &packet(PacketType::DialCls, Payload::CloseDial(CloseDial { random: 7 }))),
        sample("konnectivity.Drain", &packet(PacketType::Drain, Payload::Drain(Drain {}))),
        sample(
            "konnectivity.Window",
            &packet(PacketType::Window, Payload::Window(Window { connect_id: 9, bytes: 4096 })),
        ),
    ]
}

fn others() -> Vec<Sample> {
    use health::health_check_response::ServingStatus;
    let exit = containerd::TaskExit { container_id: s("container-1"), id: s("exec-1") };
    let envelope = containerd::Envelope { topic: s("/tasks/exit"), event: Some(any(bytes("value"))) };
    vec![
        sample("health.HealthCheckRequest", &health::HealthCheckRequest { service: s("db") }),
        sample("health.HealthCheckResponse", &health::HealthCheckResponse { status: ServingStatus::NotServing as i32 }),
        sample(
            "containerd.SubscribeRequest",
            &containerd::SubscribeRequest { filters: texts(&["topic==\"/tasks/exit\""]) },
        ),
        sample("containerd.Envelope", &envelope),
        sample("containerd.TaskExit", &exit),
    ]
}

fn any(value: Bytes) -> containerd::Any {
    containerd::Any { value, ..containerd::Any::default() }
}
