/* Stands for somebody else's libibverbs.so.1: the public version nodes, and nothing of ours. */
int foreign_ibverbs(void);
int foreign_ibverbs(void) { return 0; }
