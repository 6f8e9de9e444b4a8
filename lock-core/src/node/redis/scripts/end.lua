if ARGV[word] then rest().others() end
return table.concat(answers, '\n')
