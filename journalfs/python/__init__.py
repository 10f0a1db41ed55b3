"""The Python interface: `import journalfs` hands its names on (docs/use/python.md).

`opening` decides who does the work: a store that this process opens (`own`), or the files of a mount
(`mounted`). Both are a `Backend`; `store` and `asynchronous` show one to callers that block and that await.
"""
