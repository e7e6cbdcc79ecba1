"""Values in saved states: their checks, random generators, and the states of data sets and streams"""
