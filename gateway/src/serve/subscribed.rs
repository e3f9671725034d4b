//! One subscription of a connection.

use std::sync::Arc;

use serde_json::json;
use stockade_subscriptions::Subscription;
use stockade_wire::subscriptions::SubscribeRequest;
use tokio::sync::mpsc;

use super::connection::{answer, deliver, refusal};
use crate::Gateway;
use crate::protocol::frames::{self, Frame, Id};

/// Answers a request for records, and tells of them until the subscription ends or nobody hears it.
pub(super) async fn serve(
    id: Id,
    gateway: Arc<Gateway>,
    request: SubscribeRequest,
    outgoing: mpsc::Sender<Vec<u8>>,
) {
    match gateway.subscribe(request).await {
        Ok((begun, subscription)) => {
            drop(gateway);
            deliver(&outgoing, answer(&id, &begun)).await;
            tell(id, subscription, outgoing).await;
        }
        Err(failure) => deliver(&outgoing, refusal(id, &failure)).await,
    }
}

/// Sends what a subscription tells. A client that does not read is not told of what came meanwhile.
async fn tell(id: Id, mut subscription: Subscription, outgoing: mpsc::Sender<Vec<u8>>) {
    loop {
        let told = subscription.next().await;
        if told.is_empty() {
            return;
        }
        for told in told {
            let params = json!({"subscription": id.value(), "told": told});
            let line = frames::encode(&Frame::Notification { method: "told".into(), params });
            if outgoing.send(line).await.is_err() {
                return;
            }
        }
    }
}
