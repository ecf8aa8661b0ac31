//! Pages given back, in a process of its own: other tests would change what it has.
#![cfg(target_os = "linux")]

use isochrony_system::memory::give_pages_back;

#[test]
fn releases_whole_pages_only() {
    let own = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.unwrap().parse::<usize>().unwrap() << 10
    };
    let mut memory = vec![7u8; 64 << 20];
    let before = own();
    let (first, rest) = memory.split_at_mut(100_001);
    let (part, last) = rest.split_at_mut(60 << 20);
    give_pages_back(part);
    assert!(own() + (50 << 20) < before, "{} of {before}", own());
    assert!(first.iter().chain(&*last).all(|&byte| byte == 7));
    assert!(part.iter().all(|&byte| byte == 7 || byte == 0));
    for small in [0, 1, 5000, 1 << 16] {
        give_pages_back(&mut vec![1; small]);
    }
}
