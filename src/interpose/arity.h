// CALL0 .. CALL6 of calls.def in one form: the parameters as a declaration, as arguments, and their names.
// Whoever reads calls.def defines CALL(library, answer, flags, result, name, (declaration), (arguments),
// names...) and
// NAMED_SLOT first.
#define CALL0(l, a, f, r, n) CALL(l, a, f, r, n, (), (), )
#define CALL1(l, a, f, r, n, T1, p1) CALL(l, a, f, r, n, (T1 p1), (p1), #p1)
#define CALL2(l, a, f, r, n, T1, p1, T2, p2) CALL(l, a, f, r, n, (T1 p1, T2 p2), (p1, p2), #p1, #p2)
#define CALL3(l, a, f, r, n, T1, p1, T2, p2, T3, p3) \
    CALL(l, a, f, r, n, (T1 p1, T2 p2, T3 p3), (p1, p2, p3), #p1, #p2, #p3)
#define CALL4(l, a, f, r, n, T1, p1, T2, p2, T3, p3, T4, p4) \
    CALL(l, a, f, r, n, (T1 p1, T2 p2, T3 p3, T4 p4), (p1, p2, p3, p4), #p1, #p2, #p3, #p4)
#define CALL5(l, a, f, r, n, T1, p1, T2, p2, T3, p3, T4, p4, T5, p5) \
    CALL(l, a, f, r, n, (T1 p1, T2 p2, T3 p3, T4 p4, T5 p5), (p1, p2, p3, p4, p5), #p1, #p2, #p3, #p4, #p5)
#define CALL6(l, a, f, r, n, T1, p1, T2, p2, T3, p3, T4, p4, T5, p5, T6, p6)                                 \
    CALL(l, a, f, r, n, (T1 p1, T2 p2, T3 p3, T4 p4, T5 p5, T6 p6), (p1, p2, p3, p4, p5, p6), #p1, #p2, #p3, \
         #p4, #p5, #p6)
#define SLOT(t, a, f, n, m, ...) NAMED_SLOT(t, a, f, n, #n, m, __VA_ARGS__)
