"""Decode and load time with memory on the CPUs' own NUMA node against another one."""
