use isochrony_expr::Expr;
use isochrony_flow::{Catalog, Plan};
use isochrony_segment::DType;
use serde_json::json;

use super::quiet::{self, QuietHistory, QuietRecording};
use super::{loud, one_loud};

#[test]
fn explain_says_what_is_skipped_and_why_not() {
    let s = Expr::input();
    let made = one_loud(DType::I16);
    let scan = Plan::scan(made.stored());
    let text = loud(&scan).explain();
    for said in [
        "rewrite\n  stored extremes: the scan of stn/p skips ranges without a window that passes filter(s.max() >= 1000",
        "of 3145728 samples are skipped: their stored extremes show that no window with them passes",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let passes = s.max().ge(quiet::LIMIT);
    let windows = scan.rewindow(4096).unwrap();
    let kept = {
        let declaration = *Catalog::standard().get("rewindow").unwrap();
        let params = json!({"window": 4096, "tail": "keep"});
        let kept = scan.apply(&declaration, params.as_object().unwrap().clone(), &[]);
        kept.unwrap()
    };
    let many = made
        .stored()
        .ranges((0..100).map(|nth| nth * 20_000..nth * 20_000 + 9000));
    let all_of_it = "no skipping\n  all of stn/p is read for filter(s.max() >= 1000";
    let reasons = [
        (
            windows.map(&(&s - s.mean())).unwrap().filter(&passes),
            "map lies between, and extremes are those of the stored samples; filter before map if that is meant",
        ),
        (
            scan.map(&(&s * 2))
                .unwrap()
                .rewindow(4096)
                .unwrap()
                .filter(&passes),
            "map lies between, and extremes are those of the stored samples; rewindow and filter before map if that is meant",
        ),
        (
            windows
                .filter(&s.max().ewm(0.5).gt(3))
                .unwrap()
                .filter(&passes),
            "filter(predicate=s.max().ewm(0.5) > 3) lies between and remembers earlier windows, so it needs all of them; \
             put filter(s.max() >= 1000.0) before it to give it only what passes",
        ),
        (
            windows.limit(3).unwrap().filter(&passes),
            "limit(count=3) lies between and needs all windows, in order; put filter(s.max() >= 1000.0) before it",
        ),
        (
            windows.filter(&s.std().gt(3)).unwrap().merge(&[windows
                .filter(&s.std().gt(3))
                .unwrap()
                .filter(&passes)
                .unwrap()]),
            "another operator, too, needs what filter(predicate=s.std() > 3) gives",
        ),
        (
            kept.filter(&passes),
            "short last windows are kept, as tail=\"keep\" of rewindow says",
        ),
        (
            windows.merge(&[windows.filter(&passes).unwrap()]),
            "another operator, too, needs what rewindow(window=4096) gives",
        ),
        (
            Plan::scan(many).rewindow(4096).unwrap().filter(&passes),
            "100 ranges are selected, and looking up the extremes of more than 64 takes longer than reading",
        ),
    ];
    for (plan, why) in reasons {
        let text = plan.unwrap().explain();
        assert!(
            text.contains(all_of_it) && text.contains(why),
            "{why}: {text}"
        );
    }
    let many_gaps = QuietHistory {
        stretches: vec![(30_000, Some(3)); 110],
        loud: vec![],
        not_finite: vec![],
        seed: 1,
    };
    let many_gaps = QuietRecording::new(DType::I16, &many_gaps, None);
    let most = [
        (
            Plan::scan(many_gaps.stored())
                .rewindow(4096)
                .unwrap()
                .filter(&passes),
            "stn/p: all is read: no range between gaps has 32768 samples, and shorter ones are read as fast as they are skipped",
        ),
        (
            Plan::scan(made.stored().ranges(std::iter::once(0..9000)))
                .rewindow(4096)
                .unwrap()
                .filter(&passes),
            "stn/p: all is read: 9000 samples are read as fast as stored extremes are looked up",
        ),
        (
            windows.filter(&s.max().lt(quiet::LIMIT)),
            "of 3145728 samples that no window with them passes, which are too few",
        ),
    ];
    for (plan, why) in most {
        let text = plan.unwrap().explain();
        assert!(text.contains(why), "{why}: {text}");
    }
    // Nobody expects it of these.
    for predicate in [s.std().gt(3), !s.max().gt(3), s.max().ewm(0.5).gt(3)] {
        let text = windows.filter(&predicate).unwrap().explain();
        assert!(!text.contains("skip"), "{text}");
    }
}
