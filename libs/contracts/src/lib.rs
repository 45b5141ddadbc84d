//! Protobuf contracts, compiled from the top-level folder `proto/` (its README explains the maintenance): the messages, and the methods of each gRPC service with
//! the types of their requests and answers.
//!
//! | module | contract | used by |
//! |---|---|---|
//! | [`oarlock`] | between our own processes, and of external cloud providers | `libs/bus`, `libs/cloud` |
//! | [`cri`] | Container Runtime Interface v1 | `actors/kubelet` |
//! | [`containerd`] | containerd's events | `actors/kubelet` |
//! | [`health`] | gRPC health checking v1 | `actors/kubelet` |
//! | [`etcd`] | etcd v3 | `libs/storage` |
//! | [`konnectivity`] | konnectivity's tunnel | `actors/konnectivity` |
//!
//! Every `bytes` field is a [`bytes::Bytes`], which shares the buffer of the decoded message, and every map is ordered, so that equal messages encode to equal
//! bytes. Received fields that a contract does not name are skipped.

mod method;
mod secrets;

pub use method::{Bidirectional, ClientStreaming, Method, ServerStreaming, Unary};

pub use self::generated::grpc::health::v1 as health;
pub use self::generated::oarlock;
pub use self::generated::runtime::v1 as cri;

/// etcd v3: the packages `etcdserverpb` and `mvccpb`, whose names do not clash.
pub mod etcd {
    pub use crate::generated::etcdserverpb::*;
    pub use crate::generated::mvccpb::*;
}

/// Konnectivity's tunnel between an API server and the nodes that it cannot dial. Its services and messages have no package.
pub mod konnectivity {
    pub use crate::generated::{
        AgentService, CloseDial, CloseRequest, CloseResponse, Data, DialRequest, DialResponse, Drain, Packet,
        PacketType, ProxyService, Window, packet,
    };
}

/// containerd's event service and the event types that Oarlock reads.
pub mod containerd {
    pub use crate::generated::containerd::events::*;
    pub use crate::generated::containerd::services::events::v1::*;
    pub use crate::generated::google::protobuf::Any;
}

#[allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::all,
    reason = "generated; what is undocumented here is undocumented in proto/"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}
