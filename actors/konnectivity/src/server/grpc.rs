//! gRPC over the listener's HTTP/2: streams of packets in both directions.

use futures::future::BoxFuture;
use futures::stream::{Map, StreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use oarlock_contracts::konnectivity::Packet;
use oarlock_serving::answer::{Answer, Failure};
use tonic::server::{Grpc, StreamingService};
use tonic::{Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::limits::MAX_PACKET;
use crate::link::Outbound;

/// The packets of an answer.
pub(super) type Packets = Map<Outbound, fn(Packet) -> Result<Packet, Status>>;
/// The answer to a stream of packets.
pub(super) type Answered = BoxFuture<'static, Result<Response<Packets>, Status>>;

/// A method whose requests and answers are streams of packets.
pub(super) type Method = Box<dyn FnMut(tonic::Request<Streaming<Packet>>) -> Answered + Send>;

struct Service(Method);

impl StreamingService<Packet> for Service {
    type Response = Packet;
    type ResponseStream = Packets;
    type Future = Answered;

    fn call(&mut self, request: tonic::Request<Streaming<Packet>>) -> Answered {
        (self.0)(request)
    }
}

/// Returns the answer that sends the packets of a link.
pub(super) fn answer(outbound: Outbound) -> Response<Packets> {
    Response::new(outbound.map(Ok))
}

/// Answers a request to a method.
pub(super) async fn serve(method: Method, request: Request<Incoming>) -> Answer {
    let mut grpc = Grpc::new(ProstCodec::<Packet, Packet>::default()).max_decoding_message_size(MAX_PACKET);
    let answer = grpc.streaming(Service(method), request).await;
    answer.map(|body| body.map_err(|status| Box::new(status) as Failure).boxed_unsync())
}

/// Answers a request to a method that does not exist.
pub(super) fn unknown() -> Answer {
    let answer = Status::unimplemented("unknown method").into_http::<tonic::body::Body>();
    answer.map(|body| body.map_err(|status| Box::new(status) as Failure).boxed_unsync())
}
