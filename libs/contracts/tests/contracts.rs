//! Properties of the external contracts as a whole: paths of methods, names of messages, shared bytes.

use bytes::Bytes;
use oarlock_contracts::{containerd, cri, etcd, health, konnectivity, oarlock};
use prost::{Message, Name};

#[test]
fn methods_have_the_paths_of_their_contracts() {
    assert_eq!(cri::RuntimeService::RUN_POD_SANDBOX.path(), "/runtime.v1.RuntimeService/RunPodSandbox");
    assert_eq!(cri::ImageService::IMAGE_FS_INFO.path(), "/runtime.v1.ImageService/ImageFsInfo");
    assert_eq!(etcd::Kv::TXN.path(), "/etcdserverpb.KV/Txn");
    assert_eq!(etcd::Watch::WATCH.path(), "/etcdserverpb.Watch/Watch");
    assert_eq!(etcd::Maintenance::STATUS.path(), "/etcdserverpb.Maintenance/Status");
    assert_eq!(etcd::Auth::AUTHENTICATE.path(), "/etcdserverpb.Auth/Authenticate");
    assert_eq!(health::Health::CHECK.path(), "/grpc.health.v1.Health/Check");
    assert_eq!(containerd::Events::SUBSCRIBE.path(), "/containerd.services.events.v1.Events/Subscribe");
    assert_eq!(konnectivity::ProxyService::PROXY.path(), "/ProxyService/Proxy");
    assert_eq!(konnectivity::AgentService::CONNECT.path(), "/AgentService/Connect");
    let own = oarlock::cloud::v1::CloudProvider::GET_INSTANCE;
    assert_eq!(own.path(), "/oarlock.cloud.v1.CloudProvider/GetInstance");
}

#[test]
fn messages_know_their_full_names() {
    assert_eq!(oarlock::bus::v1::Envelope::full_name(), "oarlock.bus.v1.Envelope");
    assert_eq!(cri::PodSandboxConfig::full_name(), "runtime.v1.PodSandboxConfig");
}

#[test]
fn bytes_share_the_buffer_that_they_were_decoded_from() {
    let kv = etcd::KeyValue { value: Bytes::from(vec![7; 4096]), ..etcd::KeyValue::default() };
    let sent = Bytes::from(kv.encode_to_vec());
    let received = etcd::KeyValue::decode(sent.clone()).unwrap();
    assert!(sent.as_ptr_range().contains(&received.value.as_ptr()), "the value was copied");
}
