//! Every short interleaving of two turns, with duplicates, joins, time and attempts to close; then long random ones.
use super::*;

/// What happens next on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The next event of a turn.
    Next(usize),
    /// An event of a turn again.
    Again(usize),
    Join(usize),
    Resume(usize),
    Wait(u64),
    Close,
    HandOver,
    Stop,
}

const STEPS: [Step; 11] = [
    Step::Next(0),
    Step::Next(1),
    Step::Again(0),
    Step::Again(1),
    Step::Join(0),
    Step::Join(1),
    Step::Resume(0),
    Step::Resume(1),
    Step::Wait(100),
    Step::Wait(16_000),
    Step::Close,
];

/// The client's side: what it has seen, and the promises made to it.
#[derive(Clone, Default)]
struct Client {
    values: [u32; 2],
    last: [Option<Value>; 2],
    completed: [u32; 2],
    joined: [bool; 2],
    joined_at: [Option<Duration>; 2],
    told: [bool; 2],
    seen: Vec<String>,
    closed: bool,
}

struct World {
    session: Session,
    at: Duration,
    scripts: [Vec<Event>; 2],
    next: [usize; 2],
    client: Client,
}

impl World {
    fn new(scripts: [Vec<Event>; 2]) -> Self {
        let opening =
            Opening { record: SessionRecord::default(), delivered: Vec::new(), locale: Locale::En };
        let (at, client) = (Duration::ZERO, Client::default());
        Self { session: Session::new(opening), at, scripts, next: [0; 2], client }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Next(turn) if self.next[turn] < self.scripts[turn].len() => {
                self.next[turn] += 1;
                self.send(turn, self.next[turn] - 1);
            }
            Step::Again(turn) if self.next[turn] > 0 => self.send(turn, self.next[turn] / 2),
            Step::Next(_) | Step::Again(_) => {}
            Step::Join(turn) => {
                let answer = self.session.join(id(turn as u128), self.at);
                assert_eq!(answer == SessionAnswer::Open, !self.client.closed);
                self.client.joined[turn] |= answer == SessionAnswer::Open;
                self.client.joined_at[turn] = Some(self.at);
            }
            Step::Resume(turn) => {
                self.session.resume(id(turn as u128), self.at);
            }
            Step::Wait(ms) => {
                self.at += Duration::from_millis(ms);
                self.feed(Input::Tick);
            }
            Step::Close => {
                if let Some(frame) = self.session.close() {
                    assert_eq!(frame, Frame::Close);
                    self.client.closed = true;
                    let pending = |turn: &usize| {
                        self.client.joined[*turn] && self.client.completed[*turn] == 0
                    };
                    assert!(![0, 1].iter().any(pending), "closed with a promise open");
                }
            }
            Step::HandOver => {
                self.session.hand_over();
                self.client.closed = true;
            }
            Step::Stop => self.feed(Input::End(ErrorCode::Unavailable)),
        }
    }

    fn send(&mut self, turn: usize, index: usize) {
        let seq = 10 * (index as u64 + 1) + turn as u64;
        self.feed(input(turn as u128, turn as u128, seq, self.scripts[turn][index].clone()));
    }

    fn feed(&mut self, input: Input) {
        for output in self.session.handle(input, self.at) {
            assert!(!self.client.closed, "a frame after the close");
            match output {
                Output::Frame { frame, .. } => self.receive(frame),
                Output::Complete { record, frame } => {
                    let Frame::Completed { event, value } = frame else { panic!("{frame:?}") };
                    assert!(record.done.contains(&event));
                    self.complete(event.0.as_u128() as usize, value);
                }
            }
        }
    }

    fn receive(&mut self, frame: Frame) {
        let text = show_frame(&frame);
        match frame {
            Frame::Generating { event, value, first } => {
                let turn = event.0.as_u128() as usize;
                self.open(turn);
                assert_eq!(first, self.client.values[turn] == 0, "the first value is whole");
                self.client.values[turn] += 1;
                let cursor = value["metadata"]["cursor"].clone();
                let text = format!("{text} {cursor}");
                assert!(!self.client.seen.contains(&text), "{text} twice");
                self.client.seen.push(text);
                self.client.last[turn] = Some(value);
            }
            Frame::Estimation { event, .. } | Frame::Starts { event } => {
                self.open(event.0.as_u128() as usize);
                assert!(!self.client.seen.contains(&text), "{text} twice");
                self.client.seen.push(text);
            }
            Frame::Heartbeat => {}
            Frame::Completed { .. }
            | Frame::Close
            | Frame::SessionNotFound
            | Frame::Failed { .. } => panic!("{frame:?}"),
        }
    }

    fn complete(&mut self, turn: usize, value: Value) {
        self.open(turn);
        self.client.completed[turn] += 1;
        assert_eq!(self.client.last[turn].as_ref(), Some(&value), "the last value comes twice");
        if let Some(joined) = self.client.joined_at[turn] {
            assert!(self.at >= joined + limits::COMPLETION_AFTER_JOIN, "overtakes the join");
        }
    }

    #[track_caller]
    fn open(&mut self, turn: usize) {
        assert_eq!(self.client.completed[turn], 0, "a frame after the completion of {turn}");
        if let (false, Some(joined)) = (self.client.told[turn], self.client.joined_at[turn]) {
            assert!(self.at >= joined + limits::COMPLETION_AFTER_JOIN, "overtakes the join");
        }
        self.client.told[turn] = true;
    }

    /// Lets everything come that is still to come.
    fn settle(&mut self) {
        for turn in [0, 1] {
            while self.next[turn] < self.scripts[turn].len() {
                self.step(Step::Next(turn));
            }
        }
        self.step(Step::Wait(20_000));
        if !self.client.closed {
            assert_eq!(self.client.completed, [1, 1]);
            self.step(Step::Close);
            assert!(self.client.closed, "nothing is pending");
        }
    }
}

fn scripts() -> Vec<Vec<Event>> {
    vec![
        vec![
            queued(None),
            started(),
            token("a"),
            card(),
            ended(TurnStatus::Interrupted, Some("a")),
        ],
        vec![queued(None), error(), ended(TurnStatus::Rejected, None)],
        vec![queued(None), started(), token("a"), error(), token("b"), measured("ab")],
        vec![queued(None), ended(TurnStatus::Completed, None)],
    ]
}

#[test]
fn every_short_interleaving_keeps_the_promises() {
    let scripts = scripts();
    let pairs = [(0, 1), (2, 3)];
    let depth = 4;
    for (one, two) in pairs {
        for sequence in 0..STEPS.len().pow(depth) {
            let mut world = World::new([scripts[one].clone(), scripts[two].clone()]);
            let mut rest = sequence;
            for _ in 0..depth {
                world.step(STEPS[rest % STEPS.len()]);
                rest /= STEPS.len();
            }
            world.settle();
        }
    }
}

#[test]
fn long_random_interleavings_keep_the_promises() {
    let mut random = Random(0x5eed);
    for _ in 0..4_000 {
        let scripts = scripts();
        let pick = |random: &mut Random| scripts[random.below(scripts.len())].clone();
        let mut world = World::new([pick(&mut random), pick(&mut random)]);
        for _ in 0..random.below(24) {
            let step = match random.below(60) {
                0 => Step::HandOver,
                1 => Step::Stop,
                n => STEPS[n % STEPS.len()],
            };
            world.step(step);
        }
        world.settle();
    }
}

/// Xorshift: the same sequence every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}
