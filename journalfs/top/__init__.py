"""`journalfs top`: a store on a terminal, built upon `import journalfs` alone.

`looking`, `rates`, `listing`, `pages`, `showing` and `actions` know no screen, and no library but this one;
`table`, `dialogs`, `views` and `app` show them with Textual, an optional library; `once` prints them.
"""
