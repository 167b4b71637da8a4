"""
Erase the data of a person from what this package keeps.

A row is a person's if a column that may name a person has the person's session, address or label as its whole value, or
if it has the id of one of the person's chat requests. Texts are not searched, and files of other programs are not
touched.
"""
