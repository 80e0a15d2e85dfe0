//! The way from the scheduler to a caller: one queue of events for each request.
//!
//! It works for threads and for tasks of any async runtime: a reader leaves either itself in a `Condvar` or its `Waker`. The
//! queue is not bounded, as it can hold no more than the tokens of one request; a slow reader never holds up the scheduler.

use crate::{EngineError, Event};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The events of one request. Dropping it cancels the request.
#[derive(Debug)]
pub struct Stream {
    channel: Arc<Channel>,
}

/// The scheduler's end.
#[derive(Debug)]
pub(crate) struct Sender {
    channel: Arc<Channel>,
}

#[derive(Debug, Default)]
struct Channel {
    queue: Mutex<Queue>,
    ready: Condvar,
    cancelled: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// Threads in `blocking_next`.
    sleepers: usize,
    /// The last event is in `events` or has been taken.
    ended: bool,
}

pub(crate) fn channel() -> (Sender, Stream) {
    let channel = Arc::new(Channel::default());
    (Sender { channel: channel.clone() }, Stream { channel })
}

impl Channel {
    /// No code that can panic runs under the lock, so what a poisoned one guards is whole.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// The next event, waiting for it; `None` after the last, which is [`Event::Finished`] or [`Event::Failed`].
    pub fn blocking_next(&mut self) -> Option<Event> {
        let mut queue = self.channel.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                return Some(event);
            }
            if queue.ended {
                return None;
            }
            queue.sleepers += 1;
            queue = self.channel.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleepers -= 1;
        }
    }

    /// The same for those who have something else to look after: [`Poll::Pending`] where nothing came for as long as `patience`.
    pub fn blocking_next_within(&mut self, patience: Duration) -> Poll<Option<Event>> {
        let mut queue = self.channel.lock();
        if queue.events.is_empty() && !queue.ended {
            queue.sleepers += 1;
            let nothing_came = |queue: &mut Queue| queue.events.is_empty() && !queue.ended;
            queue = self.channel.ready.wait_timeout_while(queue, patience, nothing_came).unwrap_or_else(PoisonError::into_inner).0;
            queue.sleepers -= 1;
        }
        match queue.events.pop_front() {
            None if !queue.ended => Poll::Pending,
            next => Poll::Ready(next),
        }
    }

    /// The next event, for tasks; `None` after the last. Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for those who write futures by hand.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut queue = self.channel.lock();
        if let Some(event) = queue.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        match &mut queue.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Asks for the end: within a step the stream yields [`Event::Finished`] with
    /// [`FinishReason::Cancelled`](crate::FinishReason::Cancelled), unless it ended before.
    pub fn cancel(&self) {
        self.channel.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Sender {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.channel.cancelled.load(Ordering::Relaxed)
    }

    /// Queues an event; one after the last is dropped.
    pub(crate) fn send(&self, event: Event) {
        let waker = {
            let mut queue = self.channel.lock();
            if queue.ended {
                return;
            }
            queue.ended = matches!(event, Event::Finished(_) | Event::Failed(_));
            queue.events.push_back(event);
            if queue.sleepers > 0 {
                self.channel.ready.notify_all();
            }
            queue.waker.take()
        };
        // Outside the lock: it runs the runtime's code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Whatever becomes of the scheduler, no reader waits for ever.
impl Drop for Sender {
    fn drop(&mut self) {
        self.send(Event::Failed(EngineError::Stopped("its thread ended unexpectedly".into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finish, FinishReason, Timings, Token, Usage};
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    fn token(id: u32) -> Event {
        Event::Token(Token { id, text: String::new(), logprobs: None })
    }

    fn finished() -> Event {
        Event::Finished(Finish {
            reason: FinishReason::Length,
            text: String::new(),
            stop: None,
            usage: Usage::default(),
            timings: Timings::default(),
        })
    }

    #[test]
    fn a_thread_gets_everything_in_order_and_then_none() {
        let (sender, mut stream) = channel();
        let writer = std::thread::spawn(move || {
            for id in 0..1000 {
                sender.send(token(id));
                if id % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            sender.send(finished());
            sender.send(token(7));
        });
        for id in 0..1000 {
            assert_eq!(stream.blocking_next(), Some(token(id)));
        }
        assert_eq!(stream.blocking_next(), Some(finished()));
        assert_eq!(stream.blocking_next(), None);
        writer.join().unwrap();
    }

    #[test]
    fn a_thread_may_lose_patience_and_loses_nothing_by_it() {
        let (sender, mut stream) = channel();
        assert_eq!(stream.blocking_next_within(Duration::from_millis(2)), Poll::Pending);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            sender.send(token(1));
            sender.send(finished());
        });
        assert_eq!(stream.blocking_next_within(Duration::from_secs(60)), Poll::Ready(Some(token(1))));
        writer.join().unwrap();
        assert_eq!(stream.blocking_next_within(Duration::ZERO), Poll::Ready(Some(finished())));
        assert_eq!(stream.blocking_next_within(Duration::from_secs(60)), Poll::Ready(None));
    }

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_once_for_each_time_that_it_waited() {
        let (sender, mut stream) = channel();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        assert_eq!(stream.poll_next(&mut context), Poll::Pending);
        assert_eq!(stream.poll_next(&mut context), Poll::Pending);
        sender.send(token(1));
        sender.send(token(2));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(stream.poll_next(&mut context), Poll::Ready(Some(token(1))));
        assert_eq!(stream.poll_next(&mut context), Poll::Ready(Some(token(2))));
        assert_eq!(stream.poll_next(&mut context), Poll::Pending);
        sender.send(finished());
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(stream.poll_next(&mut context), Poll::Ready(Some(finished())));
        assert_eq!(stream.poll_next(&mut context), Poll::Ready(None));
    }

    #[test]
    fn a_lost_sender_is_a_failure_and_a_lost_stream_a_cancellation() {
        let (sender, mut stream) = channel();
        drop(sender);
        assert!(matches!(stream.blocking_next(), Some(Event::Failed(EngineError::Stopped(_)))));
        assert_eq!(stream.blocking_next(), None);

        let (sender, stream) = channel();
        assert!(!sender.is_cancelled());
        drop(stream);
        assert!(sender.is_cancelled());
    }
}
