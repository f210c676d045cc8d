//! Streams: server-sent events, and plain text.

use super::front::Stream;
use crate::{limits::KEEP_ALIVE, problem::Problem};
use actix_web::{HttpResponse, http::header, rt::time};
use bytes::Bytes;
use futures::{StreamExt as _, future::Either, stream};
use serde::Serialize;

/// Server-sent events: each item as `data: JSON`, and a comment now and then so that both sides notice a dead link.
pub(super) fn events<T: Serialize + 'static>(items: Stream<T>) -> HttpResponse {
    let ticks = stream::unfold(time::interval(KEEP_ALIVE), |mut interval| async move {
        interval.tick().await;
        Some(((), interval))
    });
    // The stream ends with its items; ticks alone must not keep it open.
    let items = items.map(Some).chain(stream::once(async { None }));
    let frames = stream::select(items.map(Either::Left), ticks.map(Either::Right))
        .take_while(|frame| {
            let open = !matches!(frame, Either::Left(None));
            async move { open }
        })
        .filter_map(|frame| async move {
            match frame {
                Either::Left(item) => frame_of(&item?),
                Either::Right(()) => Some(Bytes::from_static(b": alive\n\n")),
            }
        });
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(frames.map(Ok::<_, actix_web::Error>).boxed_local())
}

fn frame_of<T: Serialize>(item: &T) -> Option<Bytes> {
    // JSON has no bare line breaks, so one line of data is enough.
    serde_json::to_string(item).ok().map(|json| Bytes::from(format!("data: {json}\n\n")))
}

/// Text as it comes. An error in the middle can only break the connection off.
pub(super) fn text(chunks: Stream<Result<Bytes, Problem>>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(
            chunks
                .map(|chunk| chunk.map_err(|problem| actix_web::Error::from(super::ProblemResponse(problem))))
                .boxed_local(),
        )
}
